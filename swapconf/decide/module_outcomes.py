"""ENTRIES of one layer + what it has -> OUTCOMES: which of its modules run again, which are swapped, and why not.

A path names a module or a function in it. Of paths inside one another the outer counts, and what is recomputed is not
swapped: a swap gives way wherever it would hold a recomputed module, be one, or be in one. Where it is not known what
the layer has, a path stands for itself. Source: mindformers 2.0.0 and 2.1.0, pynative/distributed/
activation_checkpoint.py; that recompute wins is swapconf's, as both at once are not defined there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from swapconf.config.config import LayerSwap, OpSwap, SelectRecompute
from swapconf.decide import budget
from swapconf.decide.module_paths import compiled, literal, meet
from swapconf.decide.patterns import BadPattern
from swapconf.decide.strategy import ModuleEffect, ModuleOutcome, Reason, RequestKind
from swapconf.models.pynative_modules import LayerModules
from swapconf.words.phrases import joined, phrase

OVERLAP = "pynative-overlap"
NO_MATCH = "pynative-no-match"
AS_ASKED = phrase("as asked")
_NAMED_ALREADY = Reason("covered", phrase("the whole layer is named already"))
_AROUND_NAMED = Reason("covered", phrase("a module around it is named already"))
_EFFECTS: Mapping[RequestKind, ModuleEffect] = {
    "select_recompute": "recompute",
    "select_recompute_exclude": "keep",
    "select_comm_recompute": "recompute",
    "op_swap": "swap",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entries:
    """Those of a config that name one layer."""

    full: bool
    select: tuple[SelectRecompute, ...]
    select_exclude: tuple[SelectRecompute, ...]
    select_comm: tuple[SelectRecompute, ...]
    layer_swap: tuple[LayerSwap, ...]
    op_swap: tuple[OpSwap, ...]


def outcomes(entries: Entries, known: LayerModules | None) -> tuple[ModuleOutcome, ...]:
    """In the order of the sections: recompute, what is excluded from it, communication, layers and modules to swap."""
    return tuple(_Layer(known).outcomes(entries))


class _Layer:
    def __init__(self, known: LayerModules | None) -> None:
        self._known = known
        self._again: list[str] = []  # what runs again, "" for the whole layer

    def outcomes(self, entries: Entries) -> Iterator[ModuleOutcome]:
        if entries.full:
            self._again.append("")
            yield ModuleOutcome("recompute", "", ("",), "recompute", None, Reason("recompute", AS_ASKED))
        yield from self._select(entries)
        for entry in filter(_usable, entries.select_exclude):
            yield self._done("select_recompute_exclude", entry, self._paths_of_any(entry.pattern))
        yield from self._communication(entries)
        yield from self._swap(entries)

    def _select(self, entries: Entries) -> Iterator[ModuleOutcome]:
        usable = tuple(filter(_usable, entries.select))
        paths = {entry: self._paths(entry.pattern) for entry in usable}
        outer = self._outermost(path for found in paths.values() for path in found)
        for entry in usable:
            if entries.full:
                yield ModuleOutcome("select_recompute", entry.pattern, (), "recompute", None, _NAMED_ALREADY)
                continue
            mine = tuple(path for path in paths[entry] if path in outer and path not in self._again)
            self._again += mine
            if mine or not paths[entry]:
                yield self._done("select_recompute", entry, mine)
            else:
                yield ModuleOutcome("select_recompute", entry.pattern, (), "recompute", None, _AROUND_NAMED)

    def _communication(self, entries: Entries) -> Iterator[ModuleOutcome]:
        kind: RequestKind = "select_comm_recompute"
        for entry in filter(_usable, entries.select_comm):
            paths = self._paths_of_any(entry.pattern)
            functions = tuple(path for path in paths if self._known is None or path not in self._known.cells)
            free = tuple(path for path in functions if not self._is_recomputed(path))
            if "" in self._again:
                yield ModuleOutcome(kind, entry.pattern, (), "recompute", None, _NAMED_ALREADY)
            elif functions and not free:
                yield ModuleOutcome(kind, entry.pattern, (), "recompute", None, _AROUND_NAMED)
            elif paths and not functions:
                reason = Reason(NO_MATCH, phrase("a module; communication is recomputed operator by operator"))
                yield ModuleOutcome(kind, entry.pattern, paths, "nothing", None, reason)
            else:
                yield self._done(kind, entry, free)

    def _swap(self, entries: Entries) -> Iterator[ModuleOutcome]:
        for layer_swap in entries.layer_swap:
            if self._again:
                why = _recomputed(tuple(self._again))
                yield ModuleOutcome("layer_swap", "", ("",), "nothing", layer_swap.prefetch, why)
            else:
                reason = Reason("layer_swap", AS_ASKED)
                yield ModuleOutcome("layer_swap", "", ("",), "swap", layer_swap.prefetch, reason)
        usable = tuple(filter(_usable, entries.op_swap))
        if entries.layer_swap and not self._again:
            for entry in usable:
                yield ModuleOutcome("op_swap", entry.pattern, (), "swap", entry.prefetch, _NAMED_ALREADY)
        else:
            yield from self._op_swap(usable)

    def _op_swap(self, usable: tuple[OpSwap, ...]) -> Iterator[ModuleOutcome]:
        paths = {entry: self._paths(entry.pattern) for entry in usable}
        causes = {path: self._causes(path) for found in paths.values() for path in found}
        outer = self._outermost(path for path, met in causes.items() if not met)
        taken: set[str] = set()
        for entry, found in paths.items():
            if lost := self._outermost(path for path in found if causes[path]):
                why = tuple(dict.fromkeys(cause for path in lost for cause in causes[path]))
                yield ModuleOutcome("op_swap", entry.pattern, lost, "nothing", entry.prefetch, _recomputed(why))
            mine = tuple(path for path in found if path in outer and path not in taken)
            taken.update(mine)
            if mine or not found:
                yield self._done("op_swap", entry, mine)
            elif not all(causes[path] for path in found):
                yield ModuleOutcome("op_swap", entry.pattern, (), "swap", entry.prefetch, _AROUND_NAMED)

    def _done(self, kind: RequestKind, entry: OpSwap | SelectRecompute, paths: tuple[str, ...]) -> ModuleOutcome:
        """What is left of an entry is done as it asks; where nothing matches, nothing is."""
        prefetch = entry.prefetch if isinstance(entry, OpSwap) else None
        if not paths:
            reason = Reason(NO_MATCH, phrase("matches nothing in this layer"))
            return ModuleOutcome(kind, entry.pattern, (), "nothing", prefetch, reason)
        return ModuleOutcome(kind, entry.pattern, paths, _EFFECTS[kind], prefetch, Reason(kind, AS_ASKED))

    def _paths(self, pattern: str) -> tuple[str, ...]:
        """Those that a usable pattern means."""
        if self._known is None:
            return (literal(pattern) or pattern,)
        try:
            return _matching(pattern, self._known)
        except (budget.Spent, BadPattern):  # not known, which is not nothing
            return (literal(pattern) or pattern,)

    def _paths_of_any(self, pattern: str) -> tuple[str, ...]:
        """The same where communication may be meant."""
        found = self._paths(pattern)
        is_open = self._known is not None and not self._known.has_communication
        return found or ((literal(pattern) or pattern,) if is_open else ())

    def _outermost(self, paths: Iterable[str]) -> tuple[str, ...]:
        found = frozenset(paths)
        return in_order(path for path in found if found.isdisjoint(_around(path)))

    def _is_recomputed(self, path: str) -> bool:
        return any(path == other or is_inside(path, other) for other in self._again)

    def _causes(self, path: str) -> tuple[str, ...]:
        """What of that which is recomputed is, holds or lies in a path."""
        if self._known is None:
            return tuple(other for other in self._again if other == "" or meet(path, other))
        return tuple(
            other for other in self._again if path == other or is_inside(path, other) or is_inside(other, path)
        )


@lru_cache(maxsize=2048)
def _matching(pattern: str, known: LayerModules) -> tuple[str, ...]:
    """Raises Spent."""
    plain, names = literal(pattern), known.cells | known.functions
    if plain is not None and plain in names:  # a dot of a plain name is a dot in all names there are
        return (plain,)
    expression, left = compiled(pattern), budget.current()
    return in_order(path for path in names if left.fits(expression, path, pattern))


def is_inside(path: str, other: str) -> bool:
    """Whether a path lies in another; "" is the whole layer."""
    return path != other and (other == "" or path.startswith(f"{other}."))


def _around(path: str) -> Iterator[str]:
    """The paths in which a path lies."""
    if path:
        yield ""
    names = path.split(".")
    yield from (".".join(names[:end]) for end in range(1, len(names)))


def in_order(paths: Iterable[str]) -> tuple[str, ...]:
    """Outer ones first, as mindformers sorts them."""
    return tuple(sorted(paths, key=lambda path: (path.count("."), path)))


def _recomputed(paths: tuple[str, ...]) -> Reason:
    what = phrase("the whole layer") if "" in paths else joined(", ", paths)
    return Reason(OVERLAP, phrase("recomputed there: {what}", what=what))


def _usable(entry: OpSwap | SelectRecompute) -> bool:
    """An entry whose path is no regular expression asks for nothing (the rule pynative-bad-pattern reports it)."""
    try:
        compiled(entry.pattern)
    except BadPattern:
        return False
    return True
