"""RUN of a fold -> why nothing is extrapolated from it, or what becomes of the rank."""

from __future__ import annotations

from dataclasses import replace

from swapconf.dryrun.child import Ran
from swapconf.dryrun.effect.effect import Effect
from swapconf.dryrun.fold.folding import CannotFold, Fold, Size
from swapconf.dryrun.fold.part_words import size_words
from swapconf.dryrun.outcome import RankReport
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase


class NothingToRead(CannotFold):
    """A run of a fold left nothing to extrapolate from, so that no other fold would."""


class NotOnLine(CannotFold):
    """A further run is not where those of a fold say."""


class DealtOtherwise(CannotFold):
    """A run of a ``size`` had other layers than were expected, so that no fold with it would hold."""

    def __init__(self, size: Size, text: str) -> None:
        super().__init__(text)
        self.size = size


class PartFailed(Exception):
    """A run of a fold did not end well; ``report`` tells it as what became of the rank, ``ran`` is that run."""

    def __init__(self, report: RankReport, ran: Ran) -> None:
        super().__init__(report.detail)
        self.report, self.ran = report, ran


def check_deal(effect: Effect, size: Size, plan: Fold) -> None:
    """A model that deals its layers to stages in its own way ran others than these. Raises DealtOtherwise."""
    seen = {int(name) for name in effect.layers if name.isdigit()}
    own = {index for row in plan.rows if row.own for index in row.indices}
    wanted = {position for position, index in enumerate(plan.kept(size)) if index in own}
    if seen and wanted and seen != wanted:
        raise DealtOtherwise(
            size,
            phrase(
                "with {part} the stage ran {seen} layers where {wanted} were expected",
                seen=len(seen),
                part=size_words(plan, size),
                wanted=len(wanted),
            ),
        )


def failed(ran: Ran, size: Size, plan: Fold) -> RankReport:
    """The outcome of a run as that of the rank, in words of which part it was; its peak says nothing of the whole."""
    words = size_words(plan, size)
    findings: tuple[Finding, ...] = tuple(
        replace(
            finding,
            message=phrase(
                "{message} (a run with {part}, from which the whole model was to be extrapolated)",
                message=finding.message,
                part=words,
            ),
        )
        for finding in ran.report.findings
    )
    return replace(
        ran.report,
        findings=findings,
        used_peak_bytes=None,
        fold_note=phrase(
            "a run with {part} {outcome}, so the whole model was not run",
            part=words,
            outcome=phrase(ran.report.outcome.value),
        ),
    )
