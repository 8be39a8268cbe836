"""Every page ends with the command to run next, which the command line takes; long commands show their progress."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.report.memory_page import page
from swapconf.report.next_steps import next_step
from swapconf.words.units import GIB, MIB, axis_unit, show_bytes
from tests.helpers import ROOT, TRACES
from tests.processes.terminal import on_terminal, piped
from tests.unit.test_memory_view import view_of
from tests.unit.test_policies import blocks

PLAIN, SWAP = TRACES / "llama_l2_none", TRACES / "llama_l2_layerswap_n1"
CONFIG = ROOT / "configs/small/example1_default_swap.yaml"
OF_TRACES = TRACES / "llama.yaml"
WHATIF = ("whatif", str(PLAIN), "--config", str(OF_TRACES))
SWEEP = ("--set", "swap_config.layer_swap=[{backward_prefetch: 5, layers: True}]", "--sweep", "backward_prefetch=1..5")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("memory", str(SWAP)), f"swapconf whatif {SWAP} --config train.yaml --sweep backward_prefetch=1..400"),
        (
            ("timeline", str(SWAP)),
            f"swapconf whatif {SWAP} --config train.yaml --sweep backward_prefetch=1..400 --hardware ascend_910b2",
        ),
        (("compare", str(PLAIN), str(SWAP)), "swapconf dryrun train.yaml --ranks all --budget 54GB"),
        (WHATIF, f"swapconf dryrun {OF_TRACES} --keep traces"),
        ((*WHATIF, *SWEEP, "--hardware", "ascend_910b2"), f"swapconf dryrun {OF_TRACES} --keep traces"),
    ],
)
def test_a_page_ends_with_the_command_to_run_next(tmp_path: Path, words: tuple[str, ...], command: str) -> None:
    result = CliRunner().invoke(main, [*words, "--html", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    end = text[text.index("What to do next") : text.index("<footer>")]
    assert unescape(end[end.index("<code>") + 6 : end.index("</code>")]) == command
    assert ("Write backward_prefetch" in end) == ("--sweep" in words)
    known = main.get_command(None, shlex.split(command)[1])  # type: ignore[arg-type]
    assert known is not None
    assert {word for word in shlex.split(command) if word.startswith("--")} <= {
        option for parameter in known.params for option in parameter.opts
    }


def test_a_name_in_the_next_command_is_quoted() -> None:
    view = replace(view_of(blocks((1, 2, 512))), title="a b; rm -rf <x>")
    assert "'a b; rm -rf <x>'" in next_step([view], [], [], []).command
    assert "rm -rf &lt;x&gt;" in page([view], "1")


def test_axes_and_tables_name_units_alike() -> None:
    for size in (MIB, 500 * MIB, GIB, 70 * GIB):
        unit = axis_unit(size)
        assert show_bytes(size).endswith(unit.name)
        assert float(show_bytes(size).removesuffix(unit.name)) == size / unit.size_bytes


def test_a_large_check_and_a_sweep_show_their_progress_on_a_terminal_only(tmp_path: Path) -> None:
    for number in range(100):
        shutil.copy(CONFIG, tmp_path / f"{number}.yaml")
    for words, total in ((("check", tmp_path), "100/100"), ((*WHATIF, *SWEEP), "5/5")):
        assert total in on_terminal(*words, errors=True)
        done = piped(*words)
        assert done.returncode == 0
        assert total not in (done.stdout + done.stderr).decode()
    (tmp_path / "0.yaml").unlink()
    assert "99/99" not in on_terminal("check", tmp_path, errors=True)
