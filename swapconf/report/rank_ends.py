"""RUN LOG -> RANK ENDS: how each rank died, in the words in which `verify` tells it beside what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swapconf.postmortem.cause import Cause, diagnose
from swapconf.postmortem.ending import Ending
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.families import Role
from swapconf.postmortem.run_log import RunLog
from swapconf.report.ending_text import BESIDE, after_text, owner, reasons
from swapconf.verify.ended import RankEnd
from swapconf.words.findings import Origin
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes


def rank_ends(log: RunLog, folder: Path) -> Iterator[RankEnd]:
    """The one that began first. A rank that had ended its training as it should is none."""
    hint = phrase("`swapconf oom {folder}` tells what to look at", folder=folder)
    endings = [one for one in log.endings if not one.is_over]
    failures = list(log.failures)
    if log.is_memory and failures:
        yield _of_failure(failures.pop(0), folder)
    elif endings:
        first = endings.pop(0)
        yield RankEnd(
            rank=first.rank,
            what=_in_words(first),
            hint=phrase("it is not memory, as no allocation failed; {hint}", hint=hint)
            if first.family.role is Role.CAUSE and not first.family.is_of_host_memory
            else hint,
            origin=Origin(file=str(first.path), line=first.line),
        )
    here = Origin(file=str(folder))
    for failure in failures:
        yield RankEnd(rank=failure.rank, what=phrase("ran out of memory, too"), hint=hint, origin=here)
    for ending in endings:
        yield RankEnd(rank=ending.rank, what=BESIDE[ending.family.role], hint=hint, origin=here)


def _of_failure(failure: Failure, folder: Path) -> RankEnd:
    found = diagnose(failure)
    if found.cause is Cause.UNREAL:
        what = phrase("ended as it asked for memory of a size that cannot be")
    elif found.asked_bytes is None:
        what = phrase("ended as memory ran out")
    else:
        what = phrase("ended as memory ran out: {size} were asked for", size=show_bytes(found.asked_bytes))
    return RankEnd(
        rank=failure.rank,
        what=what,
        hint=phrase("`swapconf oom {folder}` tells why, and what would fit", folder=folder),
        origin=Origin(file=str(failure.path), line=failure.line),
    )


def _in_words(ending: Ending) -> str:
    what = phrase("ended by {what}", what=phrase(ending.family.value))
    if why := reasons(ending):
        what = phrase("{what} ({why})", what=what, why=why)
    parts: list[str] = [what]
    if by := owner(ending):
        parts.append(phrase("in {kernel}", kernel=by))
    if ending.device is not None:
        parts.append(phrase("on device {device}", device=ending.device))
    if after := after_text(ending.after, ending.is_over):
        parts.append(phrase("after {steps}", steps=after))
    return joined(", ", parts)
