"""``swapconf oom``: after a run that died, which allocation failed, why, and what would fit; or what else ended it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swapconf.cli.common import EXIT_ERRORS, EXIT_UNREADABLE, format_option, go_on, say
from swapconf.cli.complete import FILE
from swapconf.cli.help import Command
from swapconf.files.log_pool import MOST_JOBS
from swapconf.words.phrases import phrase, plural, show
from swapconf.words.units import parse_bytes, show_bytes

if TYPE_CHECKING:
    from swapconf.postmortem.answer import Answer
    from swapconf.postmortem.held import HeldAtPeak
    from swapconf.postmortem.run_log import RunLog
    from swapconf.profile.profile_files import ProfileFiles

_BLOCKS, _TABLE_ENDING = "memory_block.csv", ".csv"


@click.command(cls=Command)
@click.argument("path", metavar="LOG|CSV", type=click.Path(path_type=Path))
@click.option("--config", "file", metavar="YAML", type=FILE, help="The training YAML of the run, to plan what fits.")
@click.option(
    "--from",
    "baseline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Traces of the YAML without swap and recompute, as for `swapconf plan`: with them the plan is made at once.",
)
@click.option("--budget", metavar="54GB", help="What MindSpore's pool may take (default: what the log shows).")
@format_option()
def command(path: Path, file: str | None, baseline: Path | None, budget: str | None, form: str) -> None:
    """Explain why a run ran out of memory, or what else ended it, from its log, all logs below a folder, or a table.

    After a failed run: which allocation failed, on which rank first, for which layer and operator and in which phase,
    what held the memory, how much of it was fragments, whether the card or max_device_memory was the limit, and what to
    do. Where it was not memory: what ended the run (a kernel, a device, a link, a rank that others waited for, the
    data, the host), on which rank first, after which step, and what to look at. It reads what MindSpore, torch_npu and
    CANN print, CANN's own logs (plog), logs of any size, MindSpore's memory_block.csv, and what profilers and
    msMemScope (msLeaks) tell of memory. See docs/how-to/oom.md.

    \b
    swapconf oom output/msrun
    swapconf oom output/msrun/worker_3.log --config train.yaml
    swapconf oom ~/ascend/log
    swapconf oom output/msrun --config train.yaml --from traces
    swapconf oom profile/ASCEND_PROFILER_OUTPUT

    Exit codes: 0 explained; 1 no failed allocation is told, or something else ended the run first, or the YAML has
    errors; 2 a file could not be read, or the command line is wrong; 3 no plan fits.
    """
    if baseline is not None and file is None:
        raise click.UsageError(phrase("--from needs --config: the YAML that the traces are of"))
    if (table := _table(path)) is not None:
        _tell_table(table, form)
        return
    if profiles := _profiles(path):
        _tell_profiles(profiles, form)
        return
    code = _tell_log(path, _Asked(file=file, baseline=baseline, budget=_budget(budget)), form)
    raise SystemExit(code)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What is to be planned; "" and None for nothing."""

    file: str | None
    baseline: Path | None
    budget: str


def _budget(text: str | None) -> str:
    if text is None:
        return ""
    try:
        parse_bytes(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return text


def _table(path: Path) -> Path | None:
    """The memory_block.csv that is meant; None for anything else."""
    from swapconf.profile.known_files import FileKind, of_file

    if (path / _BLOCKS).is_file():
        return path / _BLOCKS
    if not path.name.endswith(_TABLE_ENDING):
        return None
    try:
        known = of_file(path)
    except OSError:
        return path  # who reads it, tells
    return path if known is not None and known.kind is FileKind.BLOCKS else None


def _profiles(path: Path) -> Sequence[ProfileFiles]:
    """What a profiler left there, or in several folders below where there is no log."""
    from swapconf.cli import profiles
    from swapconf.files import log_folder
    from swapconf.postmortem.measured import READS

    if path.is_dir() and not profiles.is_profile(path, READS) and any(log_folder.find(path)[0]):
        return ()
    return profiles.find(path, READS, "oom")


# --- a log ------------------------------------------------------------------------------------------------------------


def _tell_log(path: Path, asked: _Asked, form: str) -> int:
    from swapconf.postmortem import run_log
    from swapconf.postmortem.answer import answer
    from swapconf.postmortem.cause import Cause

    set_memory = _set_memory(asked.file) if asked.file is not None else ""
    try:
        log = run_log.read(path, min(len(os.sched_getaffinity(0)), MOST_JOBS))
    except OSError as error:
        raise click.ClickException(
            phrase("{file} cannot be read ({reason})", file=path, reason=error.strerror or error)
        ) from None
    for file, reason in log.trouble:
        say(phrase("{file} cannot be read ({reason})", file=file, reason=reason), err=True)
    for file in log.packed:
        say(phrase("{file} is compressed and was not read", file=file), err=True)
    if not log.is_memory and log.endings:
        return _tell_ending(log, form)
    if not log.failures:
        return _tell_nothing(path, log, form)
    found = answer(log, config=asked.file or "", set_memory=set_memory, budget=asked.budget)
    can_plan = asked.baseline is not None and bool(found.plan_words)
    if form == "json":
        return _print_json(log, found, asked.baseline if can_plan else None)
    _print(log, found)
    if can_plan:
        say(phrase("what fits, as `{command}` finds it:", command=found.next_command), bold=True)
        return _plan([*found.plan_words, "--from", str(asked.baseline)])
    if found.next_command:
        say(
            phrase("or, below that limit: {command}", command=found.next_command)
            if found.diagnosis.cause is Cause.SETTING
            else phrase("next: {command}", command=found.next_command),
            bold=True,
        )
    elif asked.file is not None:
        say(phrase("no plan was made: this failure is not about what a plan can move, or its budget is not told"))
    return 0


def _set_memory(file: str) -> str:
    from swapconf.config import overrides
    from swapconf.study.study import study_for_check

    try:
        study = study_for_check(overrides.of_file(file, ()), os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    go_on(study)
    return study.config.runtime.max_device_memory or ""


def _tell_nothing(path: Path, log: RunLog, form: str) -> int:
    """A log in which no allocation failed, or none that could be read."""
    if not log.num_logs or (log.trouble and not log.size_bytes):
        if not log.num_logs:
            say(phrase("{folder}: there is no log here (*.log)", folder=path), err=True)
        return EXIT_UNREADABLE
    from swapconf.report.ending_text import strange_figures
    from swapconf.report.oom_text import endings

    strange = list(strange_figures(log))
    if form == "json":
        record = {
            "kind": "log",
            "failure": None,
            "ended": [],
            "endings": [],
            "attempts": len(log.tried),
            "strange_figures": [show(line) for line in strange],
        }
        click.echo(json.dumps(record, indent=2))
        return EXIT_ERRORS
    say(
        phrase(
            "{path}: no failed allocation is told in {logs} of {size}, and nothing else that ends a run",
            path=path,
            logs=plural(log.num_logs, "{count} log", "{count} logs"),
            size=show_bytes(log.size_bytes),
        )
    )
    for line in (*endings(log), *strange):
        say(line)
    return EXIT_ERRORS


def _tell_ending(log: RunLog, form: str) -> int:
    """A run that something else than memory ended first."""
    from swapconf.cli.tables import print_rows
    from swapconf.postmortem.advice import advice
    from swapconf.report.ending_text import advice_table, ending_table, endings_as_records, strange_figures

    strange = list(strange_figures(log))
    if form == "json":
        names = dict.fromkeys(name for one in log.endings for name in one.messages)
        record = {
            "kind": "log",
            "failure": None,
            "ended": list(names),
            "endings": endings_as_records(log),
            "silent_ranks": [one.rank for one in log.silent],
            "attempts": len(log.tried),
            "remedies": [show(text) for text in advice(log.endings[0])],
            "strange_figures": [show(line) for line in strange],
        }
        click.echo(json.dumps(record, indent=2))
        return EXIT_ERRORS
    print_rows(*ending_table(log))
    click.echo()
    print_rows(*advice_table(log.endings[0]))
    for line in strange:
        say(line)
    return EXIT_ERRORS


def _print(log: RunLog, found: Answer) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.report.ending_text import strange_figures
    from swapconf.report.oom_text import failure_table, remedies_table

    print_rows(*failure_table(log, found))
    click.echo()
    print_rows(*remedies_table(found))
    click.echo()
    for line in strange_figures(log):
        say(line)


def _print_json(log: RunLog, found: Answer, baseline: Path | None) -> int:
    from swapconf.report.oom_text import as_record

    record: dict[str, Any] = as_record(log, found)
    code = 0
    if baseline is not None:
        with redirect_stdout(StringIO()) as told:
            code = _plan([*found.plan_words, "--from", str(baseline), "--format", "json"])
        record["plan"] = json.loads(told.getvalue()) if told.getvalue() else None
    click.echo(json.dumps(record, indent=2))
    return code


def _plan(words: list[str]) -> int:
    """What `swapconf plan` with these words ends with."""
    from swapconf.cli.plan import command as plan

    try:
        plan.main(words, prog_name="swapconf plan", standalone_mode=False, parent=click.get_current_context())
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_UNREADABLE
    return 0


# --- a table ----------------------------------------------------------------------------------------------------------


def _tell_table(table: Path, form: str) -> None:
    from swapconf.cli.tables import print_rows
    from swapconf.postmortem import tables
    from swapconf.report import oom_tables

    held: HeldAtPeak = tables.read(table)
    if form == "json":
        click.echo(json.dumps(oom_tables.as_record(held), indent=2))
        return
    for number, printed in enumerate(oom_tables.printed(held)):
        click.echo(nl=number > 0)
        print_rows(*printed)
    for line in oom_tables.notes(held):
        say(line)


def _tell_profiles(profiles: Sequence[ProfileFiles], form: str) -> None:
    """Why what a profiler saw was full: of several ranks the fullest whole, and all beside each other."""
    from swapconf.cli.tables import print_rows
    from swapconf.postmortem import measured
    from swapconf.report import measured_text

    found = [measured.read(files) for files in profiles]
    if form == "json":
        records = [measured_text.as_record(one) for one in found]
        click.echo(json.dumps(records[0] if len(records) == 1 else {"profiles": records}, indent=2))
        return
    fullest = max(found, key=measured.MeasuredMemory.peak)
    if len(found) > 1:
        print_rows(*measured_text.ranks(found))
        click.echo()
        say(measured_text.title(fullest), bold=True)
    for number, printed in enumerate(measured_text.printed(fullest)):
        click.echo(nl=number > 0)
        print_rows(*printed)
    for line in measured_text.notes(fullest, is_failure=True):
        say(line)
