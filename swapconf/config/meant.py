"""KEY -> NAME: the key that one which nobody reads was probably meant to be."""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise

from swapconf.words.lookalikes import in_ascii

_CLOSE = 0.86
_ENDINGS = re.compile(r"(conf|cfg|configs|configuration)$")


@lru_cache(maxsize=4096)
def meant(key: str, names: tuple[str, ...]) -> str | None:
    """The name that a key was probably meant to be: itself, or itself but for spelling. None: another word."""
    if key in names:
        return key
    known, folded = _known(names), _folded(key)
    if folded in known:
        return known[folded][0]
    # a likeness shares most pairs of letters; to compare every key of a YAML in earnest takes longer than its check
    holders = _holders(names)
    shared = Counter(name for pair in _pairs(folded) for name in holders.get(pair, ()))
    alike = [name for name, count in shared.items() if len(name) > 5 and count * 5 >= known[name][1] * 2]
    close = get_close_matches(folded, alike, n=1, cutoff=_CLOSE) if alike else []
    return known[close[0]][0] if close else None


@lru_cache
def _known(names: tuple[str, ...]) -> dict[str, tuple[str, int]]:
    """By name, folded: the name as it is, and how many pairs of letters it has."""
    return {_folded(name): (name, len(_pairs(_folded(name)))) for name in names}


@lru_cache
def _holders(names: tuple[str, ...]) -> dict[str, list[str]]:
    """By pair of letters: the names that have it, folded."""
    holders: dict[str, list[str]] = {}
    for name in _known(names):
        for pair in _pairs(name):
            holders.setdefault(pair, []).append(name)
    return holders


def _pairs(text: str) -> frozenset[str]:
    return frozenset(map("".join, pairwise(text)))


def _folded(key: str) -> str:
    """Case, separators, usual abbreviations and lookalikes aside."""
    return _ENDINGS.sub("config", re.sub(r"[\s_.\-]+", "", in_ascii(key).lower()))
