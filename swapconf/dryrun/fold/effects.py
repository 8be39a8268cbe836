"""SAMPLES -> EFFECT: what the whole model moves and recomputes, from runs with fewer layers and micro-batches.

A layer is seen in the run that has the most of its row; layers that no run had do what one in the middle of their row
does. What a micro-batch adds in a layer is the difference of two runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias, TypeVar

from swapconf.dryrun.effect.effect import Effect, Held, Launch, Move
from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.dryrun.fold.samples import Sample, template_layer

Placed = TypeVar("Placed", Move, Launch)
Source: TypeAlias = tuple[int, str]  # which of the runs, and the name of a layer there
_NOWHERE = ""


def extrapolated(samples: Sequence[Sample], fold: Fold, size: Size, host_peak_bytes: int) -> Effect:
    """``samples``: of ``fold.runs``, in their order."""
    effects = [one.effect for one in samples]
    sources = _sources(fold, size)
    more = next((number for number, one in enumerate(fold.runs) if one.micro_batches > fold.small.micro_batches), None)
    times = 0.0 if more is None else fold.distances(size)[more - 1]

    def at(items: Sequence[Sequence[Placed]]) -> tuple[Placed, ...]:
        tables = [_table(one) for one in items]
        return tuple(chain(_outside(tables, sources, fold, size), _everywhere(tables, sources, fold, more, times)))

    small = effects[0]
    again = None if small.recomputed is None else at([(one.recomputed or ())[::-1] for one in effects])[::-1]
    return replace(
        small,
        host_peak_bytes=host_peak_bytes,
        moves=at([one.moves for one in effects]),
        recomputed=again,
        layers=frozenset(
            {
                *(name for name in small.layers if name not in sources),
                *(name for name, (run, source) in sources.items() if source in effects[run].layers),
            }
        ),
        held=frozenset(_held(effects, sources)),
    )


def _sources(fold: Fold, size: Size) -> dict[str, Source]:
    """Where each layer of the own stage is seen, in layer order."""
    wanted, present = fold.kept(size) if fold.rows else (), [set(fold.kept(one)) for one in fold.runs]
    found: dict[str, Source] = {}
    row = 0
    for index in wanted:
        while index not in fold.rows[row].indices:
            row += 1
        if not fold.rows[row].own:
            continue
        run = max(range(len(fold.runs)), key=lambda number: fold.runs[number].layers[row])
        source = index if index in present[run] else template_layer(fold, fold.runs[run], row)
        found[str(index)] = run, str(source)
    return found


def _outside(
    tables: Sequence[Mapping[str, Counter[Placed]]], sources: Mapping[str, Source], fold: Fold, size: Size
) -> Iterator[Placed]:
    """What is named after none of these layers: by chance, as MindSpore names much of a router and of the exchange of
    tokens, so that it grows with layers and with micro-batches, or because it is in none."""
    for name in tables[0]:
        if name not in sources:
            counts = [table.get(name, Counter()) for table in tables]
            for item in dict.fromkeys(item for table in counts for item in table):
                count = _grown([table[item] for table in counts], fold, size)
                yield from [replace(item, place=replace(item.place, layer=name))] * count


def _grown(counts: Sequence[int], fold: Fold, size: Size) -> int:
    """Of something that each layer has in each micro-batch, or not. ``counts``: by run."""
    before, on_layers, added = counts[0], float(counts[0]), 0.0
    for distance, count, step in zip(fold.distances(size), counts[1:], fold.steps, strict=True):
        if step.micro_batches > fold.small.micro_batches:
            added += distance * (count - before)
        else:
            on_layers += distance * (count - before)
    return max(round(on_layers * (1 + added / before) if before else on_layers + added), 0)


def _everywhere(
    tables: Sequence[Mapping[str, Counter[Placed]]],
    sources: Mapping[str, Source],
    fold: Fold,
    more: int | None,
    times: float,
) -> Iterator[Placed]:
    for name, (run, source) in sources.items():
        items = Counter(tables[run].get(source, Counter()))
        if more is not None:
            items.update(_added(items, tables, source, fold, more, times))
        for item, count in items.items():
            yield from [replace(item, place=replace(item.place, layer=name))] * count


def _added(
    items: Counter[Placed],
    tables: Sequence[Mapping[str, Counter[Placed]]],
    source: str,
    fold: Fold,
    more: int,
    times: float,
) -> dict[Placed, int]:
    """What further micro-batches add to what a layer does. A layer that the runs with more of them do not have grows in
    proportion to what it does itself, as its twin does, which may be the first of its row and do more."""
    twin = _twin(fold, source)
    before, after = tables[0].get(twin, Counter()), tables[more].get(twin, Counter())
    if twin == source:
        return {item: round(times * (count - before[item])) for item, count in after.items()}
    even = fold.runs[more].micro_batches / fold.small.micro_batches
    return {
        item: round(times * count * ((after[item] / before[item] if before[item] else even) - 1))
        for item, count in items.items()
    }


def _twin(fold: Fold, name: str) -> str:
    """The layer that does the same in the smallest run."""
    if not fold.rows or not name.isdigit() or int(name) in fold.kept(fold.small):
        return name
    row = next(row for row in fold.rows if int(name) in row.indices)
    if row.twin is not None and not fold.small.layers[fold.rows.index(row)]:
        row = next(first for first in fold.rows if first.first == row.twin)
    return str(template_layer(fold, fold.small, fold.rows.index(row)))


def _table(items: Iterable[Placed]) -> dict[str, Counter[Placed]]:
    """By layer, how often there is what; layers in the order in which they are first met."""
    table: dict[str, Counter[Placed]] = defaultdict(Counter)
    for item in items:
        table[item.place.layer][replace(item, place=replace(item.place, layer=_NOWHERE))] += 1
    return table


def _held(effects: Sequence[Effect], sources: Mapping[str, Source]) -> Iterator[Held]:
    by_layer: list[dict[str, list[Held]]] = [defaultdict(list) for _ in effects]
    for groups, effect in zip(by_layer, effects, strict=True):
        for tensor in effect.held:
            groups[tensor.place.layer].append(tensor)
    for name, tensors in by_layer[0].items():
        if name not in sources:
            yield from tensors
    for name, (run, source) in sources.items():
        for tensor in by_layer[run][source]:
            yield tensor if name == source else _in_layer(tensor, source, name)


def _in_layer(tensor: Held, template: str, name: str) -> Held:
    """The same in another layer; of readers in the next one it is only known that they are outside of it."""
    return replace(
        tensor,
        place=replace(tensor.place, layer=name),
        readers=frozenset(
            replace(reader, place=replace(reader.place, layer=name)) if reader.place.layer == template else reader
            for reader in tensor.readers
        ),
    )
