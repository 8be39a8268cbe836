"""VERDICTS -> PAGE: docs/evidence/agreement.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from agreement_judge import Figures, Verdict
from evidence_page import opening, paragraph

from swapconf.upstream.facts import Versions
from swapconf.upstream.launch_orders import Order

FAR = 10.0
WORST = 1.0


def line(verdict: Verdict) -> str:
    """One case on one line, for whoever waits."""
    case, figures = verdict.case, verdict.figures
    told = (
        "crash, as predicted"
        if verdict.crash and not verdict.misses
        else ""
        if figures is None
        else (
            f"peak {figures.error:+.3f} % inside {figures.inside_error:+.3f} % away {figures.away:+.1f} % "
            f"safe {figures.over:+.1f} % host {figures.predicted_host - figures.host:+d} "
            f"moves {figures.moves}/{figures.predicted_moves}"
            + " in the order of the run"
            * (figures.order is Order.RUN)
        )
    )
    marks = "".join(f"\n    {text}" for text in (*verdict.disagreements, *verdict.misses, *verdict.spared))
    return (
        f"{case.seed}:{case.number} {case.shape.family} {case.shape.layout} rank {case.shape.rank} "
        f"[{case.kind}] {told}{marks}"
    )


def page(verdicts: Sequence[Verdict], asked: str, note: str = "", kept: Iterable[str] = ()) -> str:
    """``asked``: the options that drew the cases. ``note``: how blind they are. ``kept``: the history of the page."""
    return "\n".join([*_page(verdicts, asked, note), *kept]) + "\n"


def _page(verdicts: Sequence[Verdict], asked: str, note: str) -> Iterator[str]:
    versions = Versions.in_use()
    title = "What-if with fused kernels" if "--jit-level" in asked else "Agreement on random strategies"
    figures = [verdict.figures for verdict in verdicts if verdict.figures is not None]
    rows = [*_summaries(figures), *_outcomes(verdicts)]
    yield from opening(title, _result(verdicts, figures), ("what", "result"), rows)
    yield from paragraph(
        f"Made by `python scripts/evidence/agreement.py {asked}` with MindSpore {versions.mindspore} and MindSpore "
        f"Transformers {versions.mindformers}. Shapes, layouts, ranks and strategies are drawn at random; each line is "
        "one true dry run (level 1) and what `whatif` predicts for it from a run without swap and recompute. `--case "
        "S:I` runs one again. *Inside* is the most in use while decoder layers, gradients or what runs again allocate, "
        "copies back aside, *safe* how far the bound of `--safe` lies over the true peak, *away* how far the strategy "
        "takes the peak from that without one."
    )
    yield from paragraph(note) if note else ()
    yield "## Every case"
    yield ""
    yield (
        "| case | family | layout, rank | strategy | peak without | true peak | away % | error % | inside % | "
        "safe % | host error | moves true / predicted | agree |"
    )
    yield "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for verdict in verdicts:
        yield _row(verdict)
    for verdict in verdicts:
        yield from _told(verdict)


def _result(verdicts: Sequence[Verdict], figures: Sequence[Figures]) -> str:
    agree = sum(not verdict.disagreements for verdict in verdicts)
    agreed = f"`explain`, the cells, the graph and the log agree in {agree} of {len(verdicts)} cases."
    if not figures:
        return agreed
    sizes = [abs(entry.error) for entry in figures]
    return (
        f"The peak that `whatif` predicts is {median(sizes):.3f} % off in the median of {len(sizes)} random strategies "
        f"and {max(sizes):.3f} % at worst. {agreed}"
    )


def _outcomes(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str]]:
    """How many cases disagree, and how many crashed, foreseen or not."""
    wrong = sum(bool(verdict.disagreements) for verdict in verdicts)
    foreseen = sum(bool(verdict.crash) and not verdict.misses for verdict in verdicts)
    missed = sum(bool(verdict.misses) for verdict in verdicts)
    spared = sum(bool(verdict.spared) for verdict in verdicts)
    yield "explain, cells, graph and log", f"{wrong} of {len(verdicts)} cases disagree"
    yield (
        "MindSpore died of the strategy while it compiled",
        f"as predicted: {foreseen} cases; not foreseen in {missed}; said that it may, and it did not, in {spared}",
    )


def _summaries(figures: Sequence[Figures]) -> Iterator[tuple[str, str]]:
    """Of the cases that ran: how far the predictions are from the truth."""
    if not figures:
        return
    count = len(figures)
    far = sum(abs(entry.away) > FAR for entry in figures)
    same_moves = sum(entry.moves == entry.predicted_moves for entry in figures)
    same_host = sum(entry.host == entry.predicted_host for entry in figures)
    over = [entry.over for entry in figures]
    yield "peak", _summary([entry.error for entry in figures])
    yield "peak inside", _summary([entry.inside_error for entry in figures])
    yield f"peak more than {FAR:.0f} % away from that without a strategy", f"{far} of {count} cases"
    yield "copies to the host", f"as many as predicted in {same_moves} of {count} cases"
    yield "most host memory", f"as predicted in {same_host} of {count} cases"
    yield (
        "MindSpore's own order of launches",
        f"in {sum(one.order is Order.MINDSPORE for one in figures)} of {count} cases",
    )
    yield (
        "safe bound",
        f"below the truth in {sum(entry.safe < entry.peak for entry in figures)} of {count} cases; over it by "
        f"{median(over):.1f} % in the median, {max(over):.1f} % at most",
    )


def _row(verdict: Verdict) -> str:
    case = verdict.case
    place = f"{case.shape.layout}, {case.shape.rank}"
    start = f"| {case.seed}:{case.number} | {case.shape.family} | {place} | {case.kind} |"
    agree = "**no**" if verdict.disagreements else "yes"
    if verdict.figures is None:
        return f"{start} | crash | | | | | | | {agree} |"
    found: Figures = verdict.figures
    return (
        f"{start} {found.baseline} | {found.peak} | {found.away:+.1f} | {found.error:+.3f} | "
        f"{found.inside_error:+.3f} | {found.over:+.1f} | {found.predicted_host - found.host:+d} | "
        f"{found.moves} / {found.predicted_moves} | {agree} |"
    )


def _told(verdict: Verdict) -> Iterator[str]:
    found = verdict.figures
    off = found is not None and max(abs(found.error), abs(found.inside_error)) > WORST
    if verdict.disagreements or verdict.misses or verdict.spared or off:
        yield ""
        yield f"{verdict.case.seed}:{verdict.case.number}: `{verdict.case.words}`"
        yield from (f"- {text}" for text in (*verdict.disagreements, *verdict.misses, *verdict.spared))


def _summary(errors: Sequence[float]) -> str:
    sizes = [abs(error) for error in errors]
    return (
        f"median error {median(sizes):.3f} %, worst {max(sizes):.3f} %; more than {WORST:.0f} % off in "
        f"{sum(size > WORST for size in sizes)} of {len(sizes)} cases"
    )
