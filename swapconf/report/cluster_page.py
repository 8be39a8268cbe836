"""CLUSTER VIEWS -> HTML: all stages of a job side by side, in one page that loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapconf.memory.advice import PASSES, host_line, peak_line, reach, remedy
from swapconf.memory.cluster_view import ClusterView, HostRow, RankRow
from swapconf.memory.peak import PeakPart, is_given_back
from swapconf.memory.rank_columns import PEAKS
from swapconf.report import html
from swapconf.report.memory_tables import layers_in_words
from swapconf.report.next_steps import after_cluster
from swapconf.words.columns import Column, PrintedTable, count, of_part, table, words
from swapconf.words.phrases import in_use, joined, phrase, plural
from swapconf.words.units import show_bytes

# Tableau's, as in the pages of memory; the loss stands out
COLOURS = {
    PeakPart.WEIGHTS: "#4e79a7",
    PeakPart.OPTIMIZER: "#b07aa1",
    PeakPart.GRADIENTS: "#e15759",
    PeakPart.LAYERS: "#59a14f",
    PeakPart.RECOMPUTED: "#9bd18c",
    PeakPart.SWAP: "#ff9da7",
    PeakPart.LOSS: "#f28e2b",
    PeakPart.OUTSIDE: "#b6992d",
    PeakPart.COMMUNICATION: "#76b7b2",
    PeakPart.WORKSPACE: "#9c755f",
    PeakPart.CONSTANTS: "#a7a9ac",
    PeakPart.TEMPORARY: "#edc948",
}
_FAR = 3  # a limit so many times above all peaks is told, not drawn
_ROOM = 1.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A piece of a bar.

    Attributes:
        colour: "" for memory that no block needs.
        share: Of the width, in per cent.
    """

    name: str
    colour: str
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Ranks that hold alike, drawn as one bar. ``limit_share``: where the limit stands in per cent, None where it is
    not drawn."""

    name: str
    row: RankRow
    segments: tuple[Segment, ...]
    limit_share: float | None
    is_tightest: bool
    lines: tuple[str, ...]


def page(views: Sequence[ClusterView], version: str) -> str:
    """The text of the page; all bars share one scale. ``version``: of swapconf, for the foot."""
    scale = _scale(views)
    parts = {share.part for view in views for row in view.rows if row.peak for share in row.peak.at.shares}
    return html.template("cluster.html.j2").render(
        language=in_use(),
        titles=joined(", ", (view.title for view in views)),
        version=version,
        policy=html.policy(()),
        views=views,
        stages=[_stages(view, scale) for view in views],
        legend=[(phrase(part.value), COLOURS[part]) for part in PeakPart if part in parts],
        figures=[figures_table(view) for view in views],
        parts=[parts_table(view) for view in views],
        hosts=[hosts_table(view) for view in views],
        verdicts=[verdict(view) for view in views],
        remedies=[remedies(view) for view in views],
        origins=[joined("; ", dict.fromkeys(row.origin for row in view.rows if row.is_good)) for view in views],
        grown=[any(row.peak is not None and row.peak.is_grown for row in view.rows) for view in views],
        next_step=after_cluster(views),
        show=show_bytes,
    )


def verdict(view: ClusterView) -> list[str]:
    """Which rank is tightest, and what can be done about it; shown above all else."""
    row = view.tightest
    if row is None or row.with_fragments_peak_bytes is None:
        return [phrase("No rank came as far as its peak.")]
    size, room = show_bytes(row.with_fragments_peak_bytes), row.headroom_bytes
    name = _name([row])
    if row.limit_bytes is None or room is None:
        said = phrase("{stage} is tightest, with {size}.", stage=name, size=size)
    elif room < 0:
        said = phrase(
            "{stage} is tightest and does not fit: {size} with fragments, {over} more than the {limit} that "
            "it may use.",
            stage=name,
            size=size,
            over=show_bytes(-room),
            limit=show_bytes(row.limit_bytes),
        )
    else:
        said = phrase(
            "{stage} is tightest: {size} with fragments leave {room} of the {limit} that it may use.",
            stage=name,
            size=size,
            room=show_bytes(room),
            limit=show_bytes(row.limit_bytes),
        )
    more = remedy(row.peak) if row.peak is not None else ""
    return [said, *_lines(row), *[more] * bool(more)]


def remedies(view: ClusterView) -> list[str]:
    """What would help the stages that swap and recompute do not help, each told once."""
    found: dict[str, list[int]] = {}
    for row in view.rows:
        text = remedy(row.peak) if row.peak is not None else ""
        stages = found.setdefault(text, []) if text else []
        if row.stage not in stages:
            stages.append(row.stage)
    return [
        phrase("stage {stages}: {text}", stages=layers_in_words(sorted(stages)), text=text)
        for text, stages in found.items()
    ]


def figures_table(view: ClusterView) -> PrintedTable:
    """One row for ranks that hold alike."""
    return table(_FIGURES, _groups(view.rows))


def parts_table(view: ClusterView) -> PrintedTable:
    """What holds the peak: one row a part, one column a stage; and what is left when layers keep nothing."""
    columns = [(group, peak) for group in _groups(view.rows) if (peak := group[0].peak) is not None]
    peaks = [peak for _, peak in columns]
    head = (phrase("at the peak"), *_short_names([group for group, _ in columns]))
    rows = [
        (_part(part), *(show_bytes(size) if size else "-" for size in sizes))
        for part in PeakPart
        if any(sizes := [peak.at.bytes_of(part) for peak in peaks])
    ]
    if peaks:
        rows.append((phrase("together"), *(show_bytes(peak.at.used_bytes) for peak in peaks)))
    if any(peak.at.when for peak in peaks):
        rows.append(
            (
                phrase("highest without activations of layers"),
                *(show_bytes(peak.rest.used_bytes) if peak.at.when else "-" for peak in peaks),
            )
        )
    return PrintedTable(head, rows, frozenset(head[:1]))


def _when(row: RankRow) -> str:
    """The pass with the peak."""
    return phrase(PASSES[row.peak.at.when]) if row.peak is not None and row.peak.at.when else "-"


def _part(part: PeakPart) -> str:
    name = phrase(part.value)
    return phrase("{part} (swap, recompute)", part=name) if is_given_back(part) else name


def _short_names(groups: Sequence[Sequence[RankRow]]) -> list[str]:
    """The stage alone, where all of its ranks hold alike."""
    stages = [group[0].stage for group in groups]
    return [
        phrase("stage {stage}", stage=stage) if stages.count(stage) == 1 else _name(group)
        for stage, group in zip(stages, groups, strict=True)
    ]


def hosts_table(view: ClusterView) -> PrintedTable:
    head = (phrase("host"), phrase("its ranks"), phrase("host memory of one"))
    rows = [
        (
            str(row.first) if row.first == row.last else f"{row.first}-{row.last}",
            _cards(row),
            show_bytes(row.host_bytes),
        )
        for row in view.hosts
    ]
    return PrintedTable(head, rows, frozenset(head[:2]))


def _cards(row: HostRow) -> str:
    return joined(
        ", ",
        (
            plural(count, "{count} of stage {stage}", "{count} of stage {stage}", stage=stage)
            for stage, count in row.cards
        ),
    )


def _stages(view: ClusterView, scale: int) -> list[Stage]:
    tightest = view.tightest
    found = []
    for group in _groups(view.rows):
        row = group[0]
        is_drawn = row.limit_bytes is not None and row.limit_bytes <= scale
        found.append(
            Stage(
                name=_name(group),
                row=row,
                segments=_segments(row, scale),
                is_tightest=tightest in group,
                limit_share=round(100 * (row.limit_bytes or 0) / scale, 3) if is_drawn else None,
                lines=_lines(row),
            )
        )
    return found


def _lines(row: RankRow) -> tuple[str, ...]:
    if row.peak is None:
        return () if row.is_good else (row.outcome,)
    of_host = host_line(row.peak.host_optimizer_bytes, row.host_bytes or 0)
    return tuple(line for line in (peak_line(row.peak), reach(row.peak), of_host) if line)


def _segments(row: RankRow, scale: int) -> tuple[Segment, ...]:
    used, mapped = row.used_peak_bytes or 0, row.with_fragments_peak_bytes or 0
    shares = [(share.part, share.size_bytes) for share in row.peak.at.shares] if row.peak is not None else []
    order = {part: index for index, part in enumerate(PeakPart)}
    found = [
        Segment(
            name=phrase("{part} {size}", part=phrase(part.value), size=show_bytes(size)),
            colour=COLOURS[part],
            share=round(100 * size / scale, 3),
        )
        for part, size in sorted(shares, key=lambda item: order[item[0]])
    ]
    if not shares and used:
        found.append(
            Segment(name=phrase("used peak"), colour=COLOURS[PeakPart.CONSTANTS], share=round(100 * used / scale, 3))
        )
    if mapped > used:
        found.append(
            Segment(
                name=phrase("fragments {size}", size=show_bytes(mapped - used)),
                colour="",
                share=round(100 * (mapped - used) / scale, 3),
            )
        )
    return tuple(found)


def _scale(views: Sequence[ClusterView]) -> int:
    rows = [row for view in views for row in view.rows]
    highest = max((row.with_fragments_peak_bytes or row.used_peak_bytes or 0 for row in rows), default=0)
    limits = [row.limit_bytes for row in rows if row.limit_bytes is not None and row.limit_bytes <= _FAR * highest]
    return max(round(max([highest, *limits]) * _ROOM), 1)


def _groups(rows: Sequence[RankRow]) -> list[list[RankRow]]:
    """Ranks of one stage with the same figures together, in the order of ranks."""
    found: dict[RankRow, list[RankRow]] = {}
    for row in rows:
        found.setdefault(replace(row, rank=-1), []).append(row)
    return list(found.values())


def _first(group: Sequence[RankRow]) -> RankRow:
    return group[0]


def _name(group: Sequence[RankRow]) -> str:
    ranks = _ranks(group)
    return plural(
        len(group), "stage {stage} (rank {ranks})", "stage {stage} (ranks {ranks})", stage=group[0].stage, ranks=ranks
    )


def _ranks(group: Sequence[RankRow]) -> str:
    return layers_in_words([row.rank for row in group])


_FIGURES: tuple[Column[Sequence[RankRow]], ...] = (
    words(phrase("stage"), lambda group: str(group[0].stage)),
    count(phrase("rank"), _ranks),
    words(phrase("outcome"), lambda group: group[0].outcome),
    *of_part(PEAKS, _first),
    words(phrase("peak in"), lambda group: _when(group[0])),
)
