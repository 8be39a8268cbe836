"""The documented examples 2 to 4, compiled for a training step on the CPU: the graph carries what was decided.

Example 1 swaps flash attention, which the CPU cannot compile.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mindspore.support.ir import Node, nodes
from tests.mindspore.support.models import ROOT, decided_swaps, environment, strategy_of

pytestmark = pytest.mark.mindspore

EXAMPLES = ("example2_layer_swap", "example3_op_swap", "example4_swap_with_recompute")
TIMEOUT_SECONDS = 240
SEQUENCE, VOCABULARY = 32, 64
SMALLER = [
    f"--model.model_config.{key}={value}"
    for key, value in {"hidden_size": 64, "vocab_size": VOCABULARY, "seq_length": SEQUENCE}.items()
]
WRAPPERS = "network.network."  # the training step's and the data order's cell stand around the model


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples for one step."""
    folder = tmp_path_factory.mktemp("data")
    run(
        str(ROOT / "scripts" / "make_data.py"),
        str(folder / "train.mindrecord"),
        "--seq-length",
        str(SEQUENCE),
        "--samples",
        "4",
        "--vocab-size",
        str(VOCABULARY),
        cwd=folder,
    )
    return folder


@pytest.fixture(
    scope="module", params=[*(pytest.param(one, marks=pytest.mark.thorough) for one in EXAMPLES[:-1]), EXAMPLES[-1]]
)
def compiled(
    request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, int], Path]:
    """What is decided for an example, and the folder of its dumped graphs."""
    folder = tmp_path_factory.mktemp("graphs")
    config = ROOT / "configs" / "small" / f"{request.param}.yaml"
    run(
        "-m",
        "swapconf",
        "run",
        str(ROOT / "scripts" / "run_mindformer.py"),
        "--config",
        str(config),
        *SMALLER,
        "--train_dataset_dir",
        str(data),
        "--context.save_graphs=1",
        f"--context.save_graphs_path={folder}",
        cwd=folder,
        MS_DEV_DUMP_IR_PASSES="type_inference,validate",
    )
    return decided_swaps(strategy_of(config)), folder


def run(*words: str, cwd: Path, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def dump(folder: Path, compiler_pass: str) -> list[Node]:
    (file,) = folder.glob(f"*_{compiler_pass}_*.ir")
    return list(nodes(file))


def layers_of(flagged: dict[str, int]) -> set[str]:
    return {path.split(".")[2] for path in flagged}


def test_every_call_in_the_forward_graph_is_flagged_as_decided(compiled: tuple[dict[str, int], Path]) -> None:
    decided, folder = compiled
    calls = {node.path.removeprefix(WRAPPERS): node.prefetch for node in dump(folder, "type_inference")}
    assert len({path for path in calls if ".layers." in path}) > 100
    assert calls == {path: decided.get(path) for path in calls}
    assert layers_of({path: value for path, value in calls.items() if value is not None}) == layers_of(decided)


def test_the_optimised_graph_swaps_what_was_decided_and_nothing_else(compiled: tuple[dict[str, int], Path]) -> None:
    decided, folder = compiled
    final = dump(folder, "validate")
    flagged = {node.path.removeprefix(WRAPPERS): node.prefetch for node in final if node.prefetch is not None}
    assert flagged == {path: decided.get(path) for path in flagged}
    assert layers_of(flagged) == layers_of(decided)
    assert not [node for node in final if node.backward and node.prefetch is not None]


def test_no_call_in_the_optimised_graph_is_both_swapped_and_recomputed(compiled: tuple[dict[str, int], Path]) -> None:
    _, folder = compiled
    assert not {node.path for node in dump(folder, "validate") if node.recomputed and node.prefetch is not None}
