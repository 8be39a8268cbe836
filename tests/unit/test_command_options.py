"""What commands share: options that come as one value, and the one place that says why a command cannot go on."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from swapconf.cli.common import as_one
from swapconf.cli.help import Command
from swapconf.cli.main import main
from swapconf.dryrun import DryRunError
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int
    height: int | None


@dataclass(frozen=True, kw_only=True)
class Box(Size):
    depth: int


def test_options_named_like_fields_come_as_one_value_and_others_by_themselves() -> None:
    seen: list[object] = []

    @click.command(cls=Command)
    @click.argument("name")
    @click.option("--height", type=int)
    @click.option("--width", type=int, default=3)
    @click.option("--colour")
    @click.option("--depth", type=int)
    @as_one("box", Box)
    def command(name: str, colour: str, box: Box) -> None:
        """A box."""
        seen.extend([name, colour, box])

    assert CliRunner().invoke(command, ["a", "--colour", "red", "--depth", "2"]).exit_code == 0
    assert seen == ["a", "red", Box(width=3, height=None, depth=2)]
    assert command.help == "A box."


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            SwapconfError(
                [
                    Finding(
                        origin=Origin(file="a.yaml", line=2, column=1),
                        rule="bad-type",
                        severity=Severity.ERROR,
                        message="wrong",
                        hint="right",
                    )
                ]
            ),
            "a.yaml:2:1  (file): error: wrong; right [bad-type]\n",
        ),
        (DryRunError("no compiler here"), "Error: no compiler here\n"),
    ],
)
def test_why_a_command_cannot_go_on_is_said_in_one_place(
    error: SwapconfError, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise error

    monkeypatch.setattr("swapconf.cli.main.LazyGroup.get_command", lambda *_: Command("families", callback=failing))
    done = CliRunner().invoke(main, ["--lang", "en", "families"])
    assert (done.exit_code, done.stderr, done.stdout) == (2, said, "")
