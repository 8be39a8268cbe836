"""COLUMNS + ITEMS -> TABLE and RECORDS: a column's name, what a person reads in it and what programs get, told once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from swapconf.words.phrases import phrase
from swapconf.words.units import show_bytes

Item = TypeVar("Item", contravariant=True)
Whole = TypeVar("Whole")
Part = TypeVar("Part")
Told = TypeVar("Told")


class PrintedTable(NamedTuple):
    """``in_words``: the names of the columns that hold words; the others hold figures."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    in_words: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column(Generic[Item]):
    """One thing that is told of each item.

    Attributes:
        title: Above the column; "" where no table has it.
        shown: What a person reads.
        key: Of the JSON form; "" where that has it otherwise, or not.
        value: What the JSON form holds.
        in_words: It holds words and stands on the left; figures stand on the right.
    """

    title: str = ""
    shown: Callable[[Item], str] = str
    key: str = ""
    value: Callable[[Item], object] = str
    in_words: bool = False


def words(title: str, of: Callable[[Item], str], key: str = "") -> Column[Item]:
    return Column(title=title, shown=of, key=key, value=of, in_words=True)


def term(title: str, of: Callable[[Item], str], key: str = "") -> Column[Item]:
    """``of``: a word of swapconf's own, which a person reads in his language."""
    return Column(title=title, shown=lambda item: phrase(of(item)), key=key, value=of, in_words=True)


def count(title: str, of: Callable[[Item], object], key: str = "") -> Column[Item]:
    return Column(title=title, shown=lambda item: str(of(item)), key=key, value=of)


def size(title: str, of: Callable[[Item], int | None], key: str = "") -> Column[Item]:
    """``of``: bytes, None where they are not known."""
    return Column(title=title, shown=lambda item: show_bytes(of(item)), key=key, value=of)


def milliseconds(title: str, of: Callable[[Item], float], key: str = "", form: str = ".3f") -> Column[Item]:
    """``of``: microseconds, as the JSON form has them."""
    return Column(title=title, shown=lambda item: format(of(item) / 1000, form), key=key, value=of)


def microseconds(title: str, of: Callable[[Item], float], key: str = "") -> Column[Item]:
    return Column(title=title, shown=lambda item: format(of(item), ".1f"), key=key, value=of)


def of_part(columns: Iterable[Column[Part]], part: Callable[[Whole], Part]) -> Iterator[Column[Whole]]:
    """The same columns for what has such an item as a part."""
    for column in columns:
        yield Column(
            title=column.title,
            shown=partial(_through, column.shown, part),
            key=column.key,
            value=partial(_through, column.value, part),
            in_words=column.in_words,
        )


def _through(told: Callable[[Part], Told], part: Callable[[Whole], Part], whole: Whole) -> Told:
    return told(part(whole))


def table(columns: Sequence[Column[Item]], items: Iterable[Item]) -> PrintedTable:
    """One row an item, of the columns that have a title."""
    shown = [column for column in columns if column.title]
    return PrintedTable(
        tuple(column.title for column in shown),
        [tuple(column.shown(item) for column in shown) for item in items],
        frozenset(column.title for column in shown if column.in_words),
    )


def record(columns: Sequence[Column[Item]], item: Item) -> dict[str, Any]:
    """What the JSON form has of an item, by the keys of the columns that have one."""
    return {column.key: column.value(item) for column in columns if column.key}
