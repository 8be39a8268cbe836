r"""R3-list-meaning: with swap on, lists in recompute_config name layers; with swap off they count layers per stage.

The same list can so mean different layers before and after ``swap`` is switched. One finding for the section says so: a
warning where a list looks like counts (as long as the number of stages and no more than each has, a value twice, not in
ascending order), with the list of indices that would mean what the counts mean; else a note. ``--fix`` writes neither:
nobody but the author knows which was meant. An error in an mcore model with ``swap_config``, which mindformers alone
ignores: a job that ran with these counts would recompute fewer layers. Lists nested for each interleave
can only be counts, and are refused while swap is on.
Source: documented (Fine-Grained Activations SWAP, rule 3), measured with mindformers 1.9.0.

Reported: ``recompute: [2]`` with ``swap: True`` (layer 2; with swap off: the first two layers of the stage).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swapconf.config.config import Config, Dialect, FullRecompute, LayerCounts, LayerIndices, SelectRecompute
from swapconf.decide.requests import stage_map
from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.decide.stages import BadDeal, StageMap
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "R3-list-meaning"
_SHOWN = 4  # lists of a section; a person corrects these and asks again
_LONGEST = 40  # indices that a hint writes out


class _List(NamedTuple):
    """A list of indices: what it names ``now``, and as counts, None where the stages do not take it so."""

    entry: FullRecompute | SelectRecompute
    indices: tuple[int, ...]
    now: frozenset[int]
    counted: frozenset[int] | None
    why_not: str = ""


def check(case: Case) -> Iterator[Finding]:
    if not case.config.swap_on:
        return
    yield from _nested(case)
    if case.network is None:
        return
    stages = stage_map(case.config, case.network.num_layers)
    lists = [made for made in _lists(case, stages) if made.counted != made.now]
    if not lists:
        return
    suspects = [made for made in lists if _looks_like_counts(made, stages)]
    if suspects:
        place, message, hint = suspects[0].entry.origin, _message(suspects), _hint(suspects, stages)
        severity = Severity.WARNING
        if _recomputes_less(suspects, case.config):
            severity = Severity.ERROR
            message = phrase("{told}; mindformers alone ignores the swap of this model, and counts", told=message)
            hint = phrase("{hint}, but to say so: `# swapconf: ignore[{rule}] layers are meant`", hint=hint, rule=RULE)
        yield finding(RULE, severity, place, message, hint)
    else:
        yield finding(
            RULE,
            Severity.NOTE,
            lists[0].entry.origin,
            _message(lists),
            phrase("nothing to do if layers were meant; adapt the list whenever `swap` is switched"),
        )


def _lists(case: Case, stages: StageMap) -> Iterator[_List]:
    seen = set()
    for entry in case.recompute_entries():
        if isinstance(entry.layers, LayerIndices) and entry.origin not in seen:
            seen.add(entry.origin)
            indices = entry.layers.indices
            now = stages.selected(entry.layers)
            try:
                then = stages.selected(LayerCounts(counts=(indices,), per_interleave=False))
            except BadDeal as error:
                yield _List(entry, indices, now, None, str(error))
            else:
                yield _List(entry, indices, now, then)


def _looks_like_counts(made: _List, stages: StageMap) -> bool:
    """A list that no stage takes as counts, or that counts more than a stage has, is one of layers, unless its values
    say otherwise."""
    indices, num_stages = made.indices, stages.pipeline.num_stages
    if list(indices) != sorted(set(indices)):
        return True
    available = [sum(shares) for shares in zip(*stages.shares, strict=True)]
    fits = stages.guessed or all(count <= share for count, share in zip(indices, available, strict=False))
    return made.counted is not None and num_stages > 1 and len(indices) == num_stages and fits


def _recomputes_less(lists: Sequence[_List], config: Config) -> bool:
    """Whether mindformers alone, which passes no `swap_config` to mcore models, takes one of these as counts of more
    layers (1.7.0 to 2.1.0, TransformerOpParallelConfig.to_dict)."""
    is_ignored = not config.model.legacy and config.dialect is Dialect.LEGACY
    return is_ignored and any(made.counted is not None and len(made.counted) > len(made.now) for made in lists)


def _message(lists: Sequence[_List]) -> str:
    first = lists[0]
    told = (
        phrase(
            "swap is on, so this list names {layers}; as counts per stage, with swap off, it would mean {others}",
            layers=ranges(first.now),
            others=ranges(first.counted),
        )
        if first.counted is not None
        else phrase(
            "swap is on, so this list names {layers}; as counts per stage, with swap off, it would not be accepted "
            "({why})",
            layers=ranges(first.now),
            why=first.why_not,
        )
    )
    if not lists[1:]:
        return told
    others = ", ".join(f"`{_key(made)}`" for made in lists[1:_SHOWN]) + (", ..." if lists[_SHOWN:] else "")
    return phrase("{told}; the same holds for {others}", told=told, others=others)


def _key(made: _List) -> str:
    """Where a list stands in its section; for mcore models in model_config."""
    return made.entry.origin.path.removeprefix("recompute_config.").removeprefix("model.model_config.")


def _hint(suspects: Sequence[_List], stages: StageMap) -> str:
    meant = [
        (_key(made), _written(made.counted))
        for made in suspects
        if made.counted is not None and len(made.counted) <= _LONGEST and not stages.guessed
    ][:_SHOWN]
    if not meant:
        return phrase("if layers were meant, list each once, in ascending order; if counts were meant, list the layers")
    if not meant[1:]:
        return phrase("if counts were meant, write {indices}; nothing to do if layers were meant", indices=meant[0][1])
    lists = ", ".join(f"`{key}: {indices}`" for key, indices in meant)
    return phrase("if counts were meant, write {lists}; nothing to do if layers were meant", lists=lists)


def _written(layers: frozenset[int]) -> str:
    return f"[{', '.join(map(str, sorted(layers)))}]"


def _nested(case: Case) -> Iterator[Finding]:
    for entry in case.config.recompute.unusable:
        hint = phrase("list the layer indices flat")
        if case.network is not None and isinstance(entry.layers, LayerCounts):
            stages = stage_map(case.config, case.network.num_layers)
            try:
                layers = stages.selected(entry.layers)
            except BadDeal:
                layers = frozenset()
            if layers and len(layers) <= _LONGEST and not stages.guessed:
                hint = phrase(
                    "as counts this would mean {indices}; list the layer indices flat, like this",
                    indices=_written(layers),
                )
        yield finding(
            "recompute-form",
            Severity.ERROR,
            entry.origin,
            phrase("with swap on, this list names layers, so it cannot be nested"),
            hint,
        )
