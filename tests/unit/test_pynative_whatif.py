"""What-if of a PyNative trace, against the true runs of `dryrun --as-parallel` of the same model.

The trace is one of MindSpore 2.10.0 and mindformers 2.0.0: configs/pynative/qwen3.yaml with two layers at hidden 64 and
512 tokens, its modules marked. ``expected.txt`` has MindSpore's own ``max_memory_allocated`` of it and of runs of it
with recompute and swap, what these took with fragments (``mapped``) and had on the host, and how many kernels ran again
in which layer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.pynative.bound import recompute_at_worst
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.recompute import recompute
from tests.helpers import TRACES, invoke, unpacked

FOLDER = unpacked(TRACES / "pynative" / "qwen3_l2_modules")
FULL = "recompute:\n  mode: full\n  full_recompute_layer: ['0-1']\n"
SELECT = "recompute:\n  mode: select\n  select_module:\n    mlp: ['0']\n    self_attention: ['1']\n"
SWAP = "swap:\n  enable: true\n  default_prefetch: 1\n  layer_swap:\n    - layers: ['0']\n"
INNER = (
    "recompute:\n  mode: select\n  select_module:\n    mlp.activation_func: ['0']\n"
    "    self_attention.core_attention: ['0-1']\n    .*norm: ['1']\n"
)
COMMUNICATION = "recompute_comm:\n  enable: true\n  select_module:\n    {}: ['0']\n"
MODULES = (
    "swap:\n  enable: true\n  default_prefetch: 1\n  op_swap:\n    - op_name: mlp\n      layers: ['0']\n"
    "    - op_name: 'self_attention[.]core_attention'\n      layers: ['0']\n"
)
BOTH = FULL.replace("0-1", "1") + SWAP
CASES = {"full": FULL, "select": SELECT, "inner": INNER, "swap": SWAP, "both": BOTH, "modules": MODULES}


def true(name: str) -> int:
    told = dict(line.split() for line in (FOLDER / "expected.txt").read_text().splitlines())
    return int(told[name])


def asked(folder: Path, sections: str, *more: str) -> Any:
    config = folder / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text() + sections)
    return invoke("whatif", FOLDER, "--config", config, *more)


def answer(folder: Path, sections: str) -> dict[str, Any]:
    result = asked(folder, sections, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_that_of_the_true_run_and_the_bound_is_above(tmp_path: Path, name: str) -> None:
    found = answer(tmp_path, CASES[name])
    assert found["baseline_used_peak_bytes"] == true("none")
    assert found["used_peak_bytes"] == pytest.approx(true(name), abs=1024)
    assert true(name) <= found["safe_used_peak_bytes"] < 1.3 * true(name)
    assert found["host_peak_bytes"] == true(f"{name}_host")
    assert found["with_fragments_peak_bytes"] == pytest.approx(true(f"{name}_mapped"), rel=0.015)


@pytest.mark.parametrize("name", ["full", "select", "inner"])
def test_as_many_kernels_run_again_as_in_the_true_run(tmp_path: Path, name: str) -> None:
    layers = answer(tmp_path, CASES[name])["layers"]
    again = [layer["recomputed_kernels_per_step"] for layer in layers]
    assert again == [true(f"{name}_again_{layer['layer']}") for layer in layers]


def test_without_an_entry_the_bound_is_the_peak_of_the_trace(tmp_path: Path) -> None:
    assert answer(tmp_path, "")["safe_used_peak_bytes"] == true("none")


def test_the_bound_is_printed_when_it_is_asked_for(tmp_path: Path) -> None:
    assert "at most" not in asked(tmp_path, FULL).output
    assert "at most" in asked(tmp_path, FULL, "--safe").output


def test_only_a_swap_moves_and_only_its_layers(tmp_path: Path) -> None:
    moved = [layer["moved_bytes_per_step"] for layer in answer(tmp_path, SWAP)["layers"]]
    assert moved[0] > 0
    assert moved[1] == 0
    assert not any(layer["moved_bytes_per_step"] for layer in answer(tmp_path, FULL)["layers"])


def test_a_recomputed_layer_is_not_swapped(tmp_path: Path) -> None:
    assert answer(tmp_path, FULL + SWAP)["used_peak_bytes"] == true("full")


@pytest.mark.parametrize(
    ("sections", "more", "told"),
    [
        (FULL, ("--hardware", "ascend_910b2"), "--hardware is not there in PyNative mode"),
        (FULL + "  exclude_op: ['matmul']\n", (), "kept from recompute (matmul)"),
        (MODULES.replace("mlp", "mlp.activation_func.silu"), (), "the swap of single operators is not predicted"),
        (COMMUNICATION.format(".*silu"), (), "reaches operators that do not communicate, as mlp.activation_func.silu"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, sections: str, more: tuple[str, ...], told: str) -> None:
    result = asked(tmp_path, sections, *more)
    assert result.exit_code != 0
    assert told in result.output


def test_recompute_of_communication_does_nothing_where_there_is_none(tmp_path: Path) -> None:
    found = answer(tmp_path, COMMUNICATION.format(".*all_gather"))
    assert found["used_peak_bytes"] == true("none")


def test_a_trace_that_does_not_tell_where_modules_turn_is_refused_for_modules_alone(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    for file in FOLDER.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    marks = json.loads((folder / "marks.json").read_text())
    marks["moments"] = [  # as many marks as before, and the tensor is used as often
        ["backward ends", moment[1]] if moment[0] == "module turns" else moment for moment in marks["moments"]
    ]
    (folder / "marks.json").write_text(json.dumps(marks))
    config = tmp_path / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text() + SELECT)
    result = invoke("whatif", folder, "--config", config)
    assert result.exit_code != 0
    assert "make it again" in result.output


@pytest.mark.parametrize(
    ("ask", "module", "is_held"),
    [
        (recompute, "", True),
        (recompute, "self_attention", True),
        (recompute, "mlp", False),
        (recompute_at_worst, "mlp", True),
    ],
)
def test_what_layers_are_handed_and_none_reads_is_held_by_what_may_be_handed_it(
    ask: Any, module: str, is_held: bool
) -> None:
    """As a mask that fused attention does not ask for; the trace has none, so a block made before the layers is one."""
    trace = trace_folder.read(FOLDER, 0)
    layout, step = Layout(trace), steps(trace.marks)[0]
    first, last = min(one.start for one in step.passes), max(one.end for one in step.passes)
    row = layout.born(step.start, first)[0]
    layout.end[row] = last + 1
    layout._users[row] = layout._users[row][:0]
    changes = layout.unchanged()
    before = int(changes.end[row])
    part = next(one for one in step.passes if (one.layer, one.module) == (1, module))
    assert part.turn is not None
    ask(layout, changes, step, part)
    assert bool(changes.end[row] > part.turn * TICKS) is is_held
    assert bool(changes.end[row] == before) is not is_held
