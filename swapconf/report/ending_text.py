"""ENDINGS -> TEXT or JSON: what else than memory ended a run, on which rank first, and what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swapconf.memory.figures import impossible
from swapconf.postmortem.advice import advice
from swapconf.postmortem.codes import CODES
from swapconf.postmortem.ending import Ending, Steps
from swapconf.postmortem.families import Family, Role
from swapconf.postmortem.first_cause import Silent, waited_for
from swapconf.postmortem.run_log import RunLog
from swapconf.postmortem.whose import Moment, of_kernel
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, phrase, plural, show
from swapconf.words.units import runs, show_bytes

_MOST_RANKS = 12
_SECOND_RUN = "recompute_Default/"  # before the names of all kernels of a recomputed cell (MindSpore 2.9.0)
# how a rank's end is told beside that of the one that began
BESIDE = {
    Role.CAUSE: phrase("died, too"),
    Role.LINK: phrase("lost a link"),
    Role.WAITS: phrase("waited in vain for another rank"),
    Role.STOPPED: phrase("stopped by a signal"),
    Role.TOLD: phrase("ended, as a launcher tells"),
}


def ending_table(log: RunLog) -> PrintedTable:
    """Of the ending that began. One row for each thing that is told."""
    first = log.endings[0]
    parts: list[str] = [phrase("ended by {what}", what=phrase(first.family.value))]
    if first.time:
        parts.append(phrase("at {time}", time=first.time))
    if len({one.rank for one in log.endings}) > 1:
        parts.append(phrase("first of {count} ranks", count=len({one.rank for one in log.endings})))
    head = (rank_name(first.rank), joined(", ", parts))
    return PrintedTable(head, list(_rows(log, first)), frozenset(head))


def advice_table(ending: Ending) -> PrintedTable:
    head = ("#", phrase("what to look at"))
    return PrintedTable(
        head, [(str(number), text) for number, text in enumerate(advice(ending), 1)], frozenset(head[1:])
    )


def _rows(log: RunLog, first: Ending) -> Iterator[tuple[str, str]]:
    yield phrase("memory"), of_memory(log, first)
    if by := owner(first):
        yield phrase("by"), by
    if during := _during(first):
        yield phrase("during"), during
    if place := _place(first):
        yield phrase("on"), place
    if why := reasons(first):
        yield phrase("why"), why
    if after := after_text(first.after, first.is_over):
        yield phrase("done before"), after
    if others := joined("; ", [*beside(log.endings[1:]), *_suspects(log, first)]):
        yield phrase("also"), others
    yield phrase("said"), first.text
    yield phrase("in"), f"{first.path}:{first.line}"


def rank_name(rank: int | None) -> str:
    return phrase("the run") if rank is None else phrase("rank {rank}", rank=rank)


def owner(ending: Ending) -> str:
    """The operator and layer of the kernel that failed, or what CANN calls it; "" where none is told."""
    kernel = ending.word("kernel")
    if not kernel:
        return ""
    layer, operator, _, _ = of_kernel(kernel)
    if not layer:
        return operator or kernel
    return phrase("{operator} of layer {layer}", operator=operator, layer=layer)


def _during(ending: Ending) -> str:
    kernel = ending.word("kernel")
    moment = of_kernel(kernel)[2] if kernel else Moment.UNKNOWN
    if _SECOND_RUN in kernel:
        return phrase(
            "{moment}; its cell is recomputed, so that its kernels run again there", moment=phrase(moment.value)
        )
    return phrase(moment.value) if moment is not Moment.UNKNOWN else ""


def _place(ending: Ending) -> str:
    parts: list[str] = []
    if ending.device is not None:
        parts.append(phrase("device {device}", device=ending.device))
    process = ending.process
    if process.pid and process.thread:
        parts.append(
            phrase(
                "process {pid}, thread {thread} ({component})",
                pid=process.pid,
                thread=process.thread,
                component=process.component,
            )
        )
    elif pid := process.pid or ending.number("pid"):
        parts.append(phrase("process {pid}", pid=pid))
    return joined(", ", parts) if parts else ""


def reasons(ending: Ending) -> str:
    """What CANN or Python says of it: code, reason, details."""
    returned, detail = ending.number("code"), ending.word("detail")
    words = [ending.word("reason")]
    if returned is not None:
        words = [f"{returned}", CODES[returned].text] if returned in CODES else [f"{returned}"]
    if ending.awaited is not None and ending.family.role is Role.WAITS:
        detail = phrase("it waited for rank {rank}", rank=ending.awaited)
    if (code := ending.number("exit")) is not None and ending.family is not Family.KILLED:
        detail = phrase("signal {number}", number=-code) if code < 0 else phrase("exit code {code}", code=code)
    if detail and ending.family is Family.VALUES:
        detail = phrase("NaN or Inf in {what}", what=detail)
    named = joined(", ", [word for word in words if word])
    return joined(": ", [part for part in (named, detail) if part])


def after_text(steps: Steps, is_over: bool) -> str:
    """The last step that was done; "" where none is told."""
    if is_over:
        return phrase("the training, which had ended as it should")
    if not steps.done:
        return ""
    if steps.total:
        return phrase("step {step} of {steps}", step=steps.done, steps=steps.total)
    return phrase("step {step}", step=steps.done)


def of_memory(log: RunLog, ending: Ending) -> str:
    """What the person asked: is it memory, and would swap or recompute help?"""
    if ending.family.is_of_host_memory:
        return phrase("no allocation on the card failed; swap takes memory of the host, recompute does not")
    if ending.family.role not in (Role.CAUSE, Role.LINK):
        return phrase(
            "not told: no allocation failed in these logs, but a rank that runs out of memory lets others end like this"
        )
    peaks = (found for rank, found in log.figures if rank == ending.rank and found.limit and found.used_peak)
    if (found := next(peaks, None)) is not None and not list(impossible(found)):
        return phrase(
            "it is not memory: {peak} of {limit} were in use at most; to use less, by swap or recompute, does not help",
            peak=show_bytes(found.used_peak),
            limit=show_bytes(found.limit),
        )
    return phrase("it is not memory: no allocation failed; to use less of it, by swap or recompute, does not help")


def beside(endings: Sequence[Ending]) -> Iterator[str]:
    """How the other ranks ended, those of one kind together."""
    for role in Role:
        of_role = [one.rank for one in endings if one.family.role is role and one.rank is not None]
        if of_role:
            yield phrase("{ranks} {what}", ranks=_ranks(of_role), what=BESIDE[role])


def _suspects(log: RunLog, first: Ending) -> Iterator[str]:
    """Where all that is told is that others were waited for: whom it was that they waited for."""
    if first.family.role is not Role.WAITS:
        return
    if silent := log.silent[:_MOST_RANKS]:
        yield phrase(
            "it may have begun where a log ends without a word: {ranks}", ranks=joined(", ", map(_silent, silent))
        )
    known = {one.rank for one in log.silent}
    if missing := [rank for rank in waited_for(log.endings) if rank not in known]:
        yield phrase("no log here tells of {ranks}, for which others waited", ranks=_ranks(missing))


def _silent(one: Silent) -> str:
    if not one.after.done:
        return phrase("rank {rank}", rank=one.rank)
    return phrase("rank {rank} (after step {step})", rank=one.rank, step=one.after.done)


def _ranks(ranks: Sequence[int]) -> str:
    listed = runs(ranks)
    names = ", ".join(listed[:_MOST_RANKS]) + ", ..." * (len(listed) > _MOST_RANKS)
    return plural(len(set(ranks)), "rank {ranks}", "ranks {ranks}", ranks=names)


def strange_figures(log: RunLog) -> Iterator[str]:
    """Figures that cannot be, as lines; the same of several ranks once."""
    found: dict[tuple[str, str], list[int | None]] = {}
    for rank, figures in log.figures:
        for said in impossible(figures):
            found.setdefault(said, []).append(rank)
    for (what, hint), ranks in found.items():
        known = [rank for rank in ranks if rank is not None]
        whose = _ranks(known) if known else phrase("the run")
        yield phrase("figures that cannot be, of {whose}: {what}; {hint}", whose=whose, what=what, hint=hint)


def endings_as_records(log: RunLog) -> list[dict[str, Any]]:
    """The JSON form, the one that began first; null is not told."""
    return [_as_record(one) for one in log.endings]


def _as_record(ending: Ending) -> dict[str, Any]:
    layer, operator, moment, _ = of_kernel(ending.word("kernel")) if ending.word("kernel") else ("", "", None, None)
    return {
        "rank": ending.rank,
        "device": ending.device,
        "family": ending.family.name.lower(),
        "family_text": show(phrase(ending.family.value)),
        "role": ending.family.role.name.lower(),
        "is_memory": ending.family.is_of_host_memory and None,
        "file": str(ending.path),
        "line": ending.line,
        "time": ending.time or None,
        "messages": list(ending.messages),
        "code": ending.number("code"),
        "reason": show(reasons(ending)) or None,
        "kernel": ending.word("kernel") or None,
        "layer": layer or None,
        "operator": operator or None,
        "moment": moment.name.lower() if moment is not None else None,
        "is_recomputed_cell": _SECOND_RUN in ending.word("kernel"),
        "step": ending.after.done or None,
        "steps": ending.after.total or None,
        "training_was_over": ending.is_over,
        "process": ending.process.pid or None,
        "text": ending.text,
    }
