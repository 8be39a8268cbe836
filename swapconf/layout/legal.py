"""LAYOUT + CARDS -> LAYOUTS: all that train the same batch with the same mathematics on these cards.

What is cut, and not what is computed, changes: degrees of data, tensors and stages, sequence parallelism, the parallel
optimizer, and how the batch is parted into micro-batches. Context and expert parallelism, and interleaved stages,
change where they are asked for only. There are as many micro-batches as stages at least, as MindSpore asks for
(nn/wrap/cell_wrapper.py:883 of 2.9.0); with fewer some stage waits at every moment. What a model cannot be cut into is
not known here: the rules of `check` say it of the YAML of each layout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product
from math import prod

from swapconf.layout.layout import Deal, Layout
from swapconf.upstream.conditional import CONTEXTS, DATA, EXPERTS, STAGES, TENSORS
from swapconf.words.phrases import mark, phrase


class Degree(Enum):
    """What of a layout can be fixed or varied, by the name of its key in the YAML."""

    DATA = ("data", DATA)
    TENSORS = ("tensors", TENSORS)
    STAGES = ("stages", STAGES)
    CONTEXTS = ("contexts", CONTEXTS)
    EXPERTS = ("experts", EXPERTS)
    SEQUENCE = ("is_sequence", ("use_seq_parallel", "sequence_parallel"))
    OPTIMIZER = ("shards_optimizer", ("enable_parallel_optimizer",))
    BATCH = ("batch", ("batch_size",))
    MICRO_BATCHES = ("micro_batches", ("micro_batch_num", "gradient_accumulation_steps"))
    INTERLEAVES = ("interleaves", ("pp_interleave_num", "virtual_pipeline_model_parallel_size"))
    OFFSET = ("deal", ("offset",))

    def __init__(self, attribute: str, paths: tuple[str, ...]) -> None:
        self.attribute, self.keys = attribute, tuple(path.rpartition(".")[2] for path in paths)

    @property
    def is_switch(self) -> bool:
        return self in (Degree.SEQUENCE, Degree.OPTIMIZER)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asks for. ``fixed``: stays as the YAML has it. ``varied``: takes these values."""

    fixed: frozenset[Degree] = frozenset()
    varied: Mapping[Degree, tuple[int, ...]] = field(default_factory=dict)


class BadWish(ValueError):
    """A key that cannot be fixed or varied so; the text says what can."""


_LARGEST_BATCH = 4  # times that of the YAML
_MOST_DOUBLINGS = 8  # of the sequences of a step
_WORDS = {"true": 1, "false": 0}
_GIVEN_TWICE = mark("`{key}` is given twice")


def wishes(fix: Sequence[str], vary: Sequence[str]) -> Wishes:
    """``fix``: keys; ``vary``: ``KEY=A,B`` each; a key with its sections or without. Raises BadWish."""
    varied: dict[Degree, tuple[int, ...]] = {}
    for text in vary:
        key, equals, values = text.partition("=")
        degree = _degree(key)
        if not equals or not values.strip():
            raise BadWish(phrase("'{text}' gives no values; write KEY=A,B", text=text))
        if degree is Degree.OFFSET:
            raise BadWish(phrase("`offset` follows from the other keys; it can be fixed with --fix offset"))
        if degree in varied:
            raise BadWish(phrase(_GIVEN_TWICE, key=key))
        varied[degree] = tuple(dict.fromkeys(_number(degree, key, value.strip()) for value in values.split(",")))
    fixed = frozenset(map(_degree, fix))
    for degree in fixed & varied.keys():
        raise BadWish(phrase(_GIVEN_TWICE, key=degree.keys[0]))
    return Wishes(fixed=fixed, varied=varied)


def _degree(key: str) -> Degree:
    name = key.strip().rpartition(".")[2]
    found = next((degree for degree in Degree if name in degree.keys), None)
    if found is None:
        known = ", ".join(degree.keys[0] for degree in Degree)
        raise BadWish(phrase("`{key}` is no key of a layout; those are {known}", key=key, known=known))
    return found


def _number(degree: Degree, key: str, text: str) -> int:
    if degree.is_switch:
        if text.lower() not in _WORDS:
            raise BadWish(phrase("`{key}` is True or False, not '{text}'", key=key, text=text))
        return _WORDS[text.lower()]
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise BadWish(phrase("`{key}` takes whole numbers above 0, not '{text}'", key=key, text=text))
    return int(text)


def layouts(own: Layout, cards: int, asked: Wishes) -> tuple[Layout, ...]:
    """All of them, in order, the YAML's own among them where it is one of these."""
    number = sum(own.layers_of_stage)
    found = {
        layout
        for degrees in _degrees(own, cards, asked)
        for interleaves in _interleaves(own, degrees, asked)
        for layout in _batches(replace(degrees, deal=_deal(own, degrees, number, interleaves, asked)), own, asked)
        if layout.deal
    }
    return tuple(sorted(found))


def nearest(own: Layout, found: Iterable[Layout]) -> Layout:
    """What of these is cut most like the YAML's: of other cards mostly the same with another degree of data."""

    degrees = ("tensors", "stages", "contexts", "experts")
    switches = ("is_sequence", "shards_optimizer", "interleaves", "batch")

    def unlike(other: Layout) -> tuple[object, ...]:
        pairs = [(getattr(own, key), getattr(other, key)) for key in degrees]
        times = prod(max(pair) / min(pair) for pair in pairs)
        return times, *(getattr(own, key) != getattr(other, key) for key in switches), other

    return min(found, key=unlike)


def more_sequences(own: Layout, cards: int, asked: Wishes) -> Iterator[Layout]:
    """The same for twice as many sequences a step, and so on."""
    for doublings in range(1, _MOST_DOUBLINGS + 1):
        yield from layouts(replace(own, micro_batches=own.micro_batches << doublings), cards, asked)


def of_stages(own: Layout, cards: int, asked: Wishes) -> tuple[Layout, ...]:
    """The layout of the YAML, and the same with its layers dealt evenly: from these on layers are shifted. Raises
    BadWish."""
    if own.stages == 1 or own.interleaves > 1:
        raise BadWish(phrase("--stages shifts layers between the stages of a pipeline without interleave"))
    if own.cards != cards:
        raise BadWish(phrase("--stages is of the YAML's own layout, which has {cards} cards", cards=own.cards))
    if asked.varied or Degree.OFFSET in asked.fixed:
        raise BadWish(phrase("--stages varies `offset` alone; leave --vary and --fix offset out"))
    even = dealt(sum(own.layers_of_stage), own.stages)
    return tuple(dict.fromkeys((own, replace(own, deal=even))))


def _degrees(own: Layout, cards: int, asked: Wishes) -> Iterator[Layout]:
    """What the cards can be cut into, with the switches that make a difference there."""
    parts = divisors(cards)
    choices = product(
        _values(asked, Degree.TENSORS, own.tensors, parts),
        _values(asked, Degree.STAGES, own.stages, parts),
        _values(asked, Degree.CONTEXTS, own.contexts, {own.contexts}),
        _values(asked, Degree.EXPERTS, own.experts, {own.experts}),
    )
    for tensors, stages, contexts, experts in choices:
        data, rest = divmod(cards, tensors * stages * contexts)
        if rest or data not in _values(asked, Degree.DATA, own.data, parts):
            continue
        sequence = _values(asked, Degree.SEQUENCE, own.is_sequence, {own.is_sequence, True} if tensors > 1 else {False})
        optimizer = _values(asked, Degree.OPTIMIZER, own.shards_optimizer, {own.shards_optimizer, True})
        for is_sequence, shards in product(sequence, optimizer if data > 1 else (own.shards_optimizer,)):
            yield Layout(
                data=data,
                tensors=tensors,
                stages=stages,
                contexts=contexts,
                experts=experts,
                is_sequence=bool(is_sequence) and tensors > 1,
                shards_optimizer=bool(shards),
            )


def _interleaves(own: Layout, degrees: Layout, asked: Wishes) -> Collection[int]:
    """Without stages there are none."""
    return _values(asked, Degree.INTERLEAVES, own.interleaves, {1, own.interleaves}) if degrees.stages > 1 else (1,)


def _batches(layout: Layout, own: Layout, asked: Wishes) -> Iterator[Layout]:
    """The same with each way to part the batch of a step."""
    each, rest = divmod(own.sequences, layout.data)
    if rest:
        return
    usual = {size for size in divisors(each) if size <= _LARGEST_BATCH * own.batch}
    for batch in _values(asked, Degree.BATCH, own.batch, usual):
        micro_batches, left = divmod(each, batch)
        if left or (layout.stages > 1 and micro_batches < layout.stages):
            continue
        if micro_batches in _values(asked, Degree.MICRO_BATCHES, own.micro_batches, {micro_batches}):
            yield replace(layout, batch=batch, micro_batches=micro_batches)


def _deal(own: Layout, degrees: Layout, number: int, interleaves: int, asked: Wishes) -> Deal:
    """Empty where the layers cannot be dealt so."""
    is_same = degrees.stages == own.stages and interleaves == own.interleaves
    if is_same:
        return own.deal
    if Degree.OFFSET in asked.fixed:
        return ()
    return dealt(number, degrees.stages, interleaves if degrees.stages > 1 else 1)


def dealt(number: int, stages: int, interleaves: int = 1) -> Deal:
    """Layers as evenly as can be. What is left over goes to stages in the middle, the last of them first: the first
    stage keeps most micro-batches, the last one has the head. Empty where a stage would have none."""
    even, rest = divmod(number, stages * interleaves)
    if not even:
        return ()
    order = [*range(stages - 2, 0, -1), 0, stages - 1]
    rows = [[even] * stages for _ in range(interleaves)]
    for place in range(rest):
        rows[place // stages][order[place % stages] if stages > 1 else 0] += 1
    return tuple(map(tuple, rows))


def divisors(number: int) -> frozenset[int]:
    return frozenset(part for part in range(1, number + 1) if number % part == 0)


def _values(asked: Wishes, degree: Degree, own: int, usual: Collection[int]) -> Collection[int]:
    """What a degree may be."""
    if degree in asked.fixed:
        return (own,)
    return asked.varied.get(degree, tuple(sorted(usual)))
