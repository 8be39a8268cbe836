r"""recompute-count: with swap off, recompute lists count layers per pipeline stage; this one does not fit the stages.

An error where there are more counts than stages, or a count is negative. A warning where a stage has fewer layers than
are counted there (mindformers takes those that it has) and where later stages have no count (they recompute nothing):
often such a list names layers, which it does with ``swap: True`` only (R3). A warning, too, where there are several
counts and no section tells the number of stages: mindformers takes 1. True and False stand for a whole stage.

Fails with pipeline_stage 1: ``recompute: [1, 2]``. Passes: ``recompute: [2]`` (the first two layers of each stage).
Warned of, 4 layers in 2 stages: ``recompute: [0, 3]``, ``recompute: [2]``. Passes: ``recompute: [0, 2]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import LayerCounts
from swapconf.decide.requests import stage_map
from swapconf.decide.rules.case import Case, finding
from swapconf.decide.stages import BadDeal, StageMap, check_lengths
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase, plural

RULE = "recompute-count"


def check(case: Case) -> Iterator[Finding]:
    stages = stage_map(case.config, case.network.num_layers) if case.network else None
    told = set()
    for entry in case.recompute_entries():
        if not isinstance(entry.layers, LayerCounts) or entry.origin in told:
            continue
        told.add(entry.origin)
        counts, origin = entry.layers, entry.origin
        negative = [count for row in counts.counts for count in row if count is not None and count < 0]
        if negative:
            yield finding(
                RULE,
                Severity.ERROR,
                origin,
                phrase("a count of layers cannot be {number}", number=negative[0]),
                phrase("write 0 or more; with swap off these are counts per stage, not layer indices"),
            )
            continue
        try:
            check_lengths(counts, case.config.pipeline)
        except BadDeal as error:
            if not case.config.pipeline.is_told:
                yield _untold(error, origin)
                continue
            yield finding(
                RULE,
                Severity.ERROR,
                origin,
                phrase("with swap off this counts layers per stage: {why}", why=error),
                _hint(counts),
            )
            continue
        yield from _misfit(case, counts, origin, stages)


def _untold(error: BadDeal, origin: Origin) -> Finding:
    return finding(
        RULE,
        Severity.WARNING,
        origin,
        phrase(
            "with swap off this counts layers per stage: {why}, which is what mindformers takes where a YAML "
            "gives none",
            why=error,
        ),
        phrase("write `parallel_config:` with the `pipeline_stage` that is meant, or one count for each stage"),
    )


def _hint(counts: LayerCounts) -> str:
    if any(count is None for row in counts.counts for count in row):
        return phrase("True stands for every layer of a stage, not for one layer; give one value for each stage")
    return phrase("give one count for each stage; to choose layers by index, use `swap: True`")


def _misfit(case: Case, counts: LayerCounts, origin: Origin, stages: StageMap | None) -> Iterator[Finding]:
    num_stages = case.config.pipeline.num_stages
    rows = counts.counts
    by_index = phrase("layers are chosen by index with `swap: True` only")
    if stages is not None and not stages.guessed:
        excess = list(_excess(counts, stages))
        if excess:
            yield finding(
                RULE,
                Severity.WARNING,
                origin,
                phrase("with swap off this counts layers per stage: {misfits}", misfits=joined("; ", excess)),
                phrase("write at most as many as a stage has; {by_index}", by_index=by_index),
            )
            return
    short = min(map(len, rows), default=num_stages)
    if 0 < short < num_stages and any(count != 0 for row in rows for count in row):
        yield finding(
            RULE,
            Severity.WARNING,
            origin,
            plural(
                short,
                "with swap off this counts layers per stage: {count} count for {stages} stages, so "
                "that the others recompute nothing",
                "with swap off this counts layers per stage: {count} counts for {stages} stages, so that "
                "the others recompute nothing",
                stages=num_stages,
            ),
            phrase("give one count for each stage, 0 where nothing is meant; {by_index}", by_index=by_index),
        )


def _excess(counts: LayerCounts, stages: StageMap) -> Iterator[str]:
    """What is counted beyond the layers of a stage; of an interleave of it, where counts are given for each."""
    shares = stages.shares if counts.per_interleave else (tuple(map(sum, zip(*stages.shares, strict=True))),)
    for row, available in zip(counts.counts, shares, strict=False):
        for stage, (count, share) in enumerate(zip(row, available, strict=False)):
            if count is not None and count > share:
                yield plural(
                    share,
                    "stage {stage} has {count} layer, not {asked}",
                    "stage {stage} has {count} layers, not {asked}",
                    stage=stage,
                    asked=count,
                )
