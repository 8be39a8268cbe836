"""What-if of a PyNative trace, against the true runs of `dryrun --as-parallel` of the same model.

The trace is one of MindSpore 2.10.0 and mindformers 2.0.0: configs/pynative/qwen3.yaml with two layers at hidden 64,
its modules marked. ``expected.txt`` has MindSpore's own ``max_memory_allocated`` of it and of three runs of it with
recompute and swap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import TRACES, invoke

FOLDER = TRACES / "pynative" / "qwen3_l2_modules"
FULL = "recompute:\n  mode: full\n  full_recompute_layer: ['0-1']\n"
SELECT = "recompute:\n  mode: select\n  select_module:\n    mlp: ['0']\n    self_attention: ['1']\n"
SWAP = "swap:\n  enable: true\n  default_prefetch: 1\n  layer_swap:\n    - layers: ['0']\n"


def true_bytes(name: str) -> int:
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


@pytest.mark.parametrize(
    ("sections", "name", "again"),
    [(FULL, "max_alloc_full", [42, 42]), (SELECT, "max_alloc_select", [6, 32]), (SWAP, "max_alloc_swap", [0, 0])],
)
def test_the_peak_is_that_of_the_true_run(tmp_path: Path, sections: str, name: str, again: list[int]) -> None:
    found = answer(tmp_path, sections)
    assert found["used_peak_bytes"] == true_bytes(name) < found["baseline_used_peak_bytes"] == true_bytes("max_alloc")
    assert [layer["recomputed_kernels_per_step"] for layer in found["layers"]] == again
    assert (found["with_fragments_peak_bytes"] is None) is (sections == SWAP), "a second stream is not placed"


def test_only_a_swap_moves_and_only_its_layers(tmp_path: Path) -> None:
    moved = [layer["moved_bytes_per_step"] for layer in answer(tmp_path, SWAP)["layers"]]
    assert moved[0] > 0
    assert moved[1] == 0
    assert not any(layer["moved_bytes_per_step"] for layer in answer(tmp_path, FULL)["layers"])


@pytest.mark.parametrize(
    ("sections", "more", "told"),
    [
        (FULL, ("--hardware", "ascend_910b2"), "--hardware is not there in PyNative mode"),
        (FULL, ("--safe",), "no upper bound is known"),
        (FULL + SWAP, (), "pynative-overlap"),
        (FULL + "  exclude_op: ['matmul']\n", (), "kept from recompute (matmul)"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, sections: str, more: tuple[str, ...], told: str) -> None:
    result = asked(tmp_path, sections, *more)
    assert result.exit_code != 0
    assert told in result.output
