"""PROFILE -> what a real step did: `swapconf timeline` of what a profiler left, and beside `--measured`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli import profiles
from swapconf.cli.common import say
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    from swapconf.profile.known_files import FileKind
    from swapconf.profile.profile_files import ProfileFiles
    from swapconf.report.measured_step_text import MeasuredRank

_OF_TRACES = (*("profile", "measured", "cards_per_host", "host_bandwidth", "host_memory"), *("trace_view", "html"))


def found(path: Path) -> Sequence[ProfileFiles]:
    """The profiles that a path means; none for a trace. Raises SwapconfError for a file that tells no times."""
    return profiles.find(path, _kinds(), "timeline")


def _kinds() -> frozenset[FileKind]:
    from swapconf.profile.known_files import FileKind

    return frozenset({FileKind.KERNELS, FileKind.SUMMARY, FileKind.STEPS})


def tell(files: Sequence[ProfileFiles], form: str) -> None:
    """Print the steps of each rank. Raises SwapconfError, and UsageError for options that a profile has no use for."""
    from swapconf.cli.tables import print_rows
    from swapconf.report import measured_step_text

    _refuse_options()
    ranks = [read(one) for one in files]
    if form == "json":
        click.echo(json.dumps([measured_step_text.as_record(one) for one in ranks], indent=2))
        return
    for one in ranks:
        say(measured_step_text.title(one), bold=True)
    has_steps = any(one.steps for one in ranks)
    print_rows(*(measured_step_text.ranks(ranks) if has_steps else measured_step_text.told(ranks)))
    longest = max((step for one in ranks for step in one.steps), key=lambda step: step.waiting_ns, default=None)
    if longest is not None and longest.exchanges:
        click.echo()
        print_rows(*measured_step_text.exchanges(longest))
    for line in measured_step_text.notes(ranks):
        say(line)


def tell_waits(folder: Path) -> None:
    """What of a measured profile is waiting, which is in no time of a kernel; nothing where nothing is."""
    from swapconf.report import measured_step_text

    ranks = [read(one) for one in _measured(folder)]
    if not any(step.waiting_ns for one in ranks for step in one.steps):
        return
    say(phrase("{folder}, the profile:", folder=folder), bold=True)
    for line in measured_step_text.notes(ranks):
        say(line)
    say(phrase("above, a message between stages takes as long as the shortest of its kind: the rest was waiting"))


def records(folder: Path) -> list[dict[str, Any]]:
    """The JSON form of what a measured profile tells of its steps."""
    from swapconf.report import measured_step_text

    return [measured_step_text.as_record(read(one)) for one in _measured(folder)]


def _measured(folder: Path) -> Sequence[ProfileFiles]:
    """Of a folder for --measured, which may tell averages or copies alone."""
    from swapconf.profile import profile_files

    return profile_files.find(folder, _kinds())


def read(files: ProfileFiles) -> MeasuredRank:
    """Raises SwapconfError."""
    from swapconf.profile import measured_step, step_trace
    from swapconf.profile.known_files import FileKind
    from swapconf.report.measured_step_text import MeasuredRank

    told = step_trace.read(*files.of(FileKind.STEPS))
    return MeasuredRank(files=files, steps=measured_step.of_profile(files), told=told)


def _refuse_options() -> None:
    """A profile was measured: nothing is estimated, and no picture is drawn that the profiler did not draw."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in _OF_TRACES
        and context.get_parameter_source(option.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            phrase("{options}: of no use for a profile, whose step was measured", options=", ".join(given))
        )
