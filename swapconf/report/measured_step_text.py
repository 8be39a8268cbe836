"""MEASURED STEPS -> TEXT or JSON: what a card did in each step, which stage waited, and what ran again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swapconf.profile.measured_step import MeasuredStep, repeated
from swapconf.profile.profile_files import ProfileFiles
from swapconf.profile.step_trace import ToldStep
from swapconf.report.measured_text import again
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import joined, phrase

_MS = 1_000_000
_MOST_STEPS, _MOST_TYPES = 12, 10


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRank:
    """``steps``: by its kernels, none where no file tells them; ``told``: as the profiler itself sums them up."""

    files: ProfileFiles
    steps: tuple[MeasuredStep, ...]
    told: tuple[ToldStep, ...]

    @property
    def name(self) -> str:
        """Its rank, else its device."""
        if self.files.rank is not None:
            return str(self.files.rank)
        devices = sorted({*(step.device for step in self.steps), *(step.device for step in self.told)} - {""})
        return ", ".join(f"NPU:{device}" for device in devices) or "-"


def title(found: MeasuredRank) -> str:
    rank = [phrase("rank {rank}", rank=found.files.rank)] * (found.files.rank is not None)
    how = phrase("a simulated step, not a card") if found.files.is_simulated else phrase("measured")
    return phrase("{place}: {what}", place=found.files.place, what=joined(", ", [*rank, how]))


def ranks(found: Sequence[MeasuredRank]) -> PrintedTable:
    """Each rank and step in a line: the parts of a step add up."""
    head = (
        phrase("rank"),
        phrase("step"),
        phrase("ms"),
        phrase("computing"),
        phrase("waiting for stages"),
        phrase("other communication"),
        phrase("nothing runs"),
        phrase("overlapped"),
    )
    rows = [
        (
            one.name,
            step.step or "-",
            *map(
                _ms,
                (
                    step.span_ns,
                    step.computing_ns,
                    step.waiting_ns,
                    step.exchanging_ns,
                    step.free_ns,
                    step.overlapped_ns,
                ),
            ),
        )
        for one in found
        for step in one.steps[:_MOST_STEPS]
    ]
    return PrintedTable(head, rows, frozenset())


def told(found: Sequence[MeasuredRank]) -> PrintedTable:
    """As the profiler says it, where no kernels are told."""
    head = (
        phrase("rank"),
        phrase("step"),
        phrase("computing"),
        phrase("communication"),
        phrase("overlapped"),
        phrase("nothing runs"),
        phrase("bubble"),
    )
    rows = [
        (
            one.name,
            step.step or "-",
            *map(_ms, (step.computing_ns, step.communicating_ns, step.overlapped_ns, step.free_ns, step.bubble_ns)),
        )
        for one in found
        for step in one.told[:_MOST_STEPS]
    ]
    return PrintedTable(head, rows, frozenset())


def exchanges(step: MeasuredStep) -> PrintedTable:
    """What was sent between cards, by type."""
    head = (
        phrase("communication"),
        phrase("times"),
        phrase("ms together"),
        phrase("longest"),
        phrase("shortest"),
        phrase("what it is"),
    )
    rows = [
        (
            one.type,
            str(one.count),
            *map(_ms, (one.total_ns, one.longest_ns, one.shortest_ns)),
            phrase("between stages: it waits for the other one") if one.waits else "-",
        )
        for one in step.exchanges[:_MOST_TYPES]
    ]
    return PrintedTable(head, rows, frozenset((head[0], head[-1])))


def notes(found: Sequence[MeasuredRank]) -> Iterator[str]:
    steps = [(one, step) for one in found for step in one.steps]
    waited = sum(step.waiting_ns for _, step in steps)
    if waited:
        yield phrase(
            "{waited} ms of {whole} ms of communication are waiting for another stage",
            waited=_ms(waited),
            whole=_ms(sum(step.communicating_ns for _, step in steps)),
        )
    yield from _differences(found)
    yield from _stages(found)
    if text := again(repeated(count for _, step in steps for count in step.counts)):
        yield text
    if not steps:
        yield phrase(
            "what of it is waiting only kernel_details.csv tells; give the folder that has it, too: the profiler of "
            "torch_npu counts receives alone as the bubble, not messages that are sent in batches"
        )


def _differences(found: Sequence[MeasuredRank]) -> Iterator[str]:
    """Where the profiler's own sum calls waiting communication."""
    for one in found:
        counted = {step.step: step for step in one.steps}
        for step in one.told:
            mine = counted.get(step.step) or (one.steps[0] if len(one.steps) == len(one.told) == 1 else None)
            if mine is not None and mine.waiting_ns > step.bubble_ns:
                yield phrase(
                    "step_trace_time.csv has {bubble} ms of that as the bubble of step {step}, and the rest as "
                    "communication",
                    bubble=_ms(step.bubble_ns),
                    step=step.step or "-",
                )
                return


def _stages(found: Sequence[MeasuredRank]) -> Iterator[str]:
    """Who waits least, the others wait for."""
    waits = [
        (sum(step.waiting_ns for step in one.steps) / sum(step.span_ns for step in one.steps), one)
        for one in found
        if one.steps
    ]
    if len(waits) < 2 or not any(share for share, _ in waits):
        return
    least, most = min(waits, key=lambda item: item[0]), max(waits, key=lambda item: item[0])
    if least[0] < most[0]:
        yield phrase(
            "rank {rank} waits least ({share:.0%} of its time), rank {other} most ({most:.0%}): the others wait for "
            "the stage of the former",
            rank=least[1].name,
            share=least[0],
            other=most[1].name,
            most=most[0],
        )


def as_record(one: MeasuredRank) -> dict[str, Any]:
    """The JSON form. Times in microseconds."""
    return {
        "profile": str(one.files.place),
        "rank": one.files.rank,
        "simulated": one.files.is_simulated,
        "steps": [
            {
                "device": step.device or None,
                "step": step.step or None,
                "step_us": step.span_ns / 1000,
                "computing_us": step.computing_ns / 1000,
                "communicating_us": step.communicating_ns / 1000,
                "overlapped_us": step.overlapped_ns / 1000,
                "waiting_us": step.waiting_ns / 1000,
                "other_communication_us": step.exchanging_ns / 1000,
                "free_us": step.free_ns / 1000,
                "communication": [
                    {
                        "type": item.type,
                        "times": item.count,
                        "total_us": item.total_ns / 1000,
                        "longest_us": item.longest_ns / 1000,
                        "shortest_us": item.shortest_ns / 1000,
                        "waits": item.waits,
                    }
                    for item in step.exchanges
                ],
            }
            for step in one.steps
        ],
        "told": [
            {
                "step": step.step or None,
                "computing_us": step.computing_ns / 1000,
                "communicating_us": step.communicating_ns / 1000,
                "overlapped_us": step.overlapped_ns / 1000,
                "free_us": step.free_ns / 1000,
                "bubble_us": step.bubble_ns / 1000,
            }
            for step in one.told
        ],
        "repeated": [
            {"operator": item.operator, "forward": item.forward, "gradient": item.gradient}
            for item in repeated(count for step in one.steps for count in step.counts)
        ],
    }


def _ms(time_ns: int) -> str:
    return f"{time_ns / _MS:.3f}"
