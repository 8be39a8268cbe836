from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.errors import SwapconfError
from swapconf.formats import overrides

YAML = "use_parallel: False\nswap_config:\n  swap: True\n  default_prefetch: 3\ncontext: {mode: 0}\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.yaml"
    path.write_text(YAML)
    return str(path)


def test_no_config_no_document() -> None:
    assert overrides.read(["--run_mode", "train"]) is None


def test_overrides_in_both_forms_keep_the_places_of_the_file(file: str) -> None:
    document = overrides.read(["--config", file, "--swap_config.default_prefetch=20", "--context.mode", "1",
                               "--use_parallel", "True", "--swap_config.op_swap",
                               "[{op_name: a, backward_prefetch: 1, layers: [0]}]"])
    assert document is not None
    assert document.root.plain() == {
        "use_parallel": True, "context": {"mode": 1},
        "swap_config": {"swap": True, "default_prefetch": 20,
                        "op_swap": [{"op_name": "a", "backward_prefetch": 1, "layers": [0]}]}}
    assert document.root.entries["swap_config"].value.entries["default_prefetch"].line == 4


def test_what_the_script_has_to_judge_is_left_alone(file: str) -> None:
    words = [f"--config={file}", "--epochs", "3", "--a.b.c=1", "--swap_config.swap=[", "positional", "--last"]
    document = overrides.read(words)
    assert document is not None
    assert document.root.plain()["swap_config"] == {"swap": True, "default_prefetch": 3}  # type: ignore[index,call-overload]


def test_a_missing_file_is_a_finding() -> None:
    with pytest.raises(SwapconfError):
        overrides.read(["--config", "missing.yaml"])
