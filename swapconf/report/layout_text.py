"""RANKING -> TEXT and RECORDS: the best layouts side by side, and why the others are not among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from swapconf.layout.found import Fate
from swapconf.layout.layout import Layout
from swapconf.layout.legal import dealt
from swapconf.layout.ranked import LostGroup, Ranking, Row
from swapconf.layout.written import offset
from swapconf.plan.planned import Planned, Verdict
from swapconf.report import plan_text, plan_told
from swapconf.report.layout_doubt import what_decides
from swapconf.timing.parts import EXPOSED_MOST, HIDDEN_MOST
from swapconf.words.columns import Column, PrintedTable, count, record, size, table, words
from swapconf.words.phrases import joined, phrase, plural, show
from swapconf.words.units import show_bytes, show_range

ENDED_BEFORE = phrase("the search was ended before a layout was planned; a second start goes on with what was run")
NOTHING_RAN = phrase("no layout could be run; why is told below")
_MOST_WORDS = 3


# --- lines ------------------------------------------------------------------------------------------------------------


def verdict_lines(ranking: Ranking, slower_link: float) -> Iterator[str]:
    """What the search comes to."""
    best = ranking.best
    if not ranking.rows:
        yield ENDED_BEFORE if ranking.found.is_interrupted else NOTHING_RAN
        return
    if best is None:
        yield phrase(
            "no layout that was tried fits in {budget}; the lowest needs {size}: {layout}",
            budget=show_bytes(ranking.usable_bytes),
            size=show_bytes(min(row.needed_bytes for row in ranking.rows)),
            layout=min(ranking.rows, key=lambda row: row.needed_bytes).layout.name,
        )
    else:
        low, high = best.parts.range_us
        yield phrase(
            "{layout}: {strategy}; a step of {step} on {cards} cards",
            layout=best.layout.name,
            strategy=strategy(best),
            step=show_range(best.parts.step_us, low, high),
            cards=ranking.cards,
        )
        yield from _against_the_yaml(ranking, best)
        yield from _against_even(ranking, best)
        if ranking.equal:
            yield phrase(
                "as fast as far as can be told: {layouts}",
                layouts=joined("; ", [row.layout.name for row in ranking.equal]),
            )
            yield what_decides(best, ranking.equal[0])
    yield phrase(
        "steps are those with a host link {share:.0%} slower than told; of the time for adding up gradients up to "
        "{hidden:.0%} may be hidden in a real step, and of what is exchanged beside computation up to {exposed:.0%} "
        "waited for, which the ranges allow for",
        share=slower_link,
        hidden=HIDDEN_MOST,
        exposed=EXPOSED_MOST,
    )
    if ranking.found.is_interrupted:
        yield plan_told.ENDED_EARLY


def _against_the_yaml(ranking: Ranking, best: Row) -> Iterator[str]:
    row = ranking.as_it_is
    if row is None:
        return
    if not row.fits:
        yield phrase("the YAML as it is does not fit: it needs {size}", size=show_bytes(row.needed_bytes))
        return
    step_us = best.parts.step_us
    between, low, high = (value / step_us for value in row.more_us or (0.0, 0.0, 0.0))
    yield phrase(
        "the YAML as it is takes {change:+.1%} of that step more, {low:+.1%} to {high:+.1%}",
        change=between,
        low=low,
        high=high,
    )


def _against_even(ranking: Ranking, best: Row) -> Iterator[str]:
    """Where the best has other layers by stage: what the same takes with equal ones."""
    even = dealt(sum(best.layout.layers_of_stage), best.layout.stages, best.layout.interleaves)
    row = next((row for row in ranking.rows if row.layout == replace(best.layout, deal=even)), None)
    if row is None or row is best or not row.fits or row.more_us is None:
        return
    between, low, high = (value / best.parts.step_us for value in row.more_us)
    yield phrase(
        "with equal stages and the best strategy for them a step takes {change:+.1%} of that more, {low:+.1%} to "
        "{high:+.1%}",
        change=between,
        low=low,
        high=high,
    )


def lost_lines(ranking: Ranking) -> Iterator[str]:
    """One line a reason."""
    yield from map(_lost, ranking.lost)


def _lost(group: LostGroup) -> str:
    told = phrase(
        "{layouts}: {reason}",
        layouts=plural(len(group.layouts), "{count} layout left out", "{count} layouts left out"),
        reason=phrase(group.fate.value),
    )
    if group.words:
        some = sorted(group.words.items(), key=lambda item: (-item[1], item[0]))[:_MOST_WORDS]
        return phrase(
            "{told} ({words})",
            told=told,
            words=joined("; ", [phrase("{times} x {word}", times=times, word=word) for word, times in some]),
        )
    if group.nearest is None or not isinstance(group.nearest.told, float):
        return told
    value = group.nearest.told
    amount = show_bytes(int(value)) if group.fate in (Fate.TOO_LARGE, Fate.OVER) else f"{value / 1000:.3f} ms"
    return phrase("{told}; nearest is {layout}: {amount}", told=told, layout=group.nearest.layout.name, amount=amount)


def strategy(row: Row) -> str:
    """Of a row in words."""
    return phrase("as the YAML says") if row.planned is None else strategy_words(row.planned)


def strategy_words(planned: Planned) -> str:
    if planned.verdict is Verdict.FULL:
        return phrase("full recompute")
    return plan_text.in_words(planned) or phrase("no swap, no recompute")


# --- table ------------------------------------------------------------------------------------------------------------


def _tokens(row: Row) -> str:
    return "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"


def _name(row: Row) -> str:
    return phrase("{layout} (the YAML as it is)", layout=row.layout.name) if row.is_as_it_is else row.layout.name


def _step(row: Row) -> str:
    low, high = row.parts.range_us
    return f"{row.parts.step_us / 1000:.3f} ({low / 1000:.1f}-{high / 1000:.1f})"


def _traces(row: Row) -> str:
    return phrase("composed") if row.composed else phrase("run")


def _more(row: Row) -> str:
    if row.more_us is None:
        return ""
    best_us = row.parts.step_us - row.more_us[0]
    share = row.more_us[0] / best_us if best_us else 0.0
    return f"{share:+.1%}" + (" =" if row.is_equal else "")


_COLUMNS: tuple[Column[Row], ...] = (
    words(phrase("layout"), _name),
    Column(key="layout", value=lambda row: row.layout.name),
    Column(title=phrase("layers"), shown=lambda row: ",".join(map(str, row.layout.layers_of_stage))),
    words(phrase("strategy"), strategy),
    Column(title=phrase("traces"), shown=_traces),
    words(phrase("fits"), lambda row: plan_told.yes_no(row.fits)),
    count(phrase("tightest"), lambda row: row.tightest_stage, "tightest_stage"),
    Column(
        title=phrase("left"),
        shown=lambda row: ("-" if row.left_bytes < 0 else "") + show_bytes(abs(row.left_bytes)),
        key="left_bytes",
        value=lambda row: row.left_bytes,
    ),
    Column(title=phrase("step ms (range)"), shown=_step, key="step_us", value=lambda row: row.parts.step_us),
    Column(title=phrase("to the best"), shown=_more),
    Column(
        title=phrase("tokens/s/card"), shown=_tokens, key="tokens_per_second", value=lambda row: row.tokens_per_second
    ),
    Column(
        title=phrase("communication ms"),
        shown=lambda row: f"{row.parts.collectives_us / 1000:.3f}",
        key="exposed_collectives_us",
        value=lambda row: row.parts.collectives_us,
    ),
    Column(
        title=phrase("bubbles ms"),
        shown=lambda row: f"{row.parts.bubble_us / 1000:.3f}",
        key="bubble_us",
        value=lambda row: row.parts.bubble_us,
    ),
    size(phrase("host"), lambda row: row.host_bytes, "host_bytes"),
    Column(key="fits", value=lambda row: row.fits),
    Column(key="needed_bytes", value=lambda row: row.needed_bytes),
    Column(key="gradients_us", value=lambda row: row.parts.gradients_us),
    Column(key="exposed_copies_us", value=lambda row: row.parts.copies_us),
)


def rows_of(ranking: Ranking, most: int | None = None) -> list[Row]:
    """The best, all by default, and the YAML as it is."""
    return [*ranking.rows[:most], *([ranking.as_it_is] if ranking.as_it_is is not None else [])]


def side_by_side(ranking: Ranking, most: int | None = None) -> PrintedTable:
    """``=``: the difference to the best may be nothing."""
    return table(_COLUMNS, rows_of(ranking, most))


# --- records ----------------------------------------------------------------------------------------------------------


def layout_record(layout: Layout) -> dict[str, Any]:
    return {
        "data_parallel": layout.data,
        "model_parallel": layout.tensors,
        "pipeline_stage": layout.stages,
        "context_parallel": layout.contexts,
        "expert_parallel": layout.experts,
        "use_seq_parallel": layout.is_sequence,
        "enable_parallel_optimizer": layout.shards_optimizer,
        "batch_size": layout.batch,
        "micro_batches": layout.micro_batches,
        "pp_interleave_num": layout.interleaves,
        "offset": offset(layout.deal),
    }


def as_record(ranking: Ranking, text: str, most: int, slower_link: float) -> dict[str, Any]:
    """The JSON form; schema ``layout``. ``text``: the YAML with the best layout and its strategy, "" for none."""
    found = ranking.found
    return {
        "cards": ranking.cards,
        "usable_bytes": ranking.usable_bytes,
        "slower_link": slower_link,
        "ranks_run": found.ran,
        "is_interrupted": found.is_interrupted,
        "layouts": [_row_record(row) for row in ranking.rows[:most]],
        "as_it_is": _row_record(ranking.as_it_is) if ranking.as_it_is is not None else None,
        "left_out": [
            {
                "reason": group.fate.name.lower(),
                "layouts": [layout.name for layout in group.layouts],
                "told": [show(word) for word in group.words or ()],
            }
            for group in ranking.lost
        ],
        "yaml": text,
    }


def _row_record(row: Row) -> dict[str, Any]:
    low, high = row.parts.range_us
    between, least, most = row.more_us or (0.0, 0.0, 0.0)
    return {
        **record(_COLUMNS, row),
        "keys": layout_record(row.layout),
        "layers": list(row.layout.layers_of_stage),
        "strategy": show(strategy(row)),
        "composed": [show(words) for words in row.composed],
        "step_low_us": low,
        "step_high_us": high,
        "more_us": between,
        "more_low_us": least,
        "more_high_us": most,
        "is_equal": row.is_equal,
    }
