r"""PATTERN -> PATHS, the PyNative way: one regular expression for a whole dotted path.

``self_attention\.linear_qkv`` and ``.*linear_qkv`` both match the module ``self_attention.linear_qkv``: a dot is a
regular expression's dot, and ``.*`` reaches over several levels (mindformers 2.0.0, activation_checkpoint.py,
``regex.fullmatch``). Graph mode matches name by name instead, see ``patterns``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from swapconf.decide import budget
from swapconf.decide.patterns import SEPARATOR, BadPattern, admitted, checked_length
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    import regex

_LITERAL = re.compile(r"\w+(?:\\?\.\w+)*")


def compiled(pattern: str) -> regex.Pattern[str]:
    """Raises BadPattern."""
    import regex  # heavy; only when there is a pattern

    admitted(pattern)
    checked_length(pattern)
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise BadPattern(
            phrase("'{pattern}' is not a regular expression: {error}", pattern=pattern, error=error)
        ) from None


def literal(pattern: str) -> str | None:
    """The one path that a pattern means, if it holds nothing but names and dots."""
    return pattern.replace(SEPARATOR, ".") if _LITERAL.fullmatch(pattern) else None


def meet(first: str, second: str) -> bool:
    """Whether two patterns surely name one module, or a module and one inside it.

    Two regular expressions whose common paths only a model can tell count as apart.
    """
    if first == second:
        return True
    one, other = literal(first), literal(second)
    if one is not None and other is not None:
        return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
    if one is None and other is None:
        return False
    return _covers(second, one) if one is not None else _covers(first, other or "")


def inside(path: str, other: str) -> bool:
    """Whether a module surely lies in another: both are names, and the other's come first."""
    one, above = literal(path), literal(other)
    return one is not None and above is not None and one.startswith(f"{above}.")


def _covers(pattern: str, path: str) -> bool:
    """Whether a regular expression matches a path or a module above it."""
    names = path.split(".")
    above = [".".join(names[:end]) for end in range(1, len(names) + 1)]
    try:
        expression = compiled(pattern)
        left = budget.current()
        return any(left.fits(expression, name, pattern) for name in above)
    except (BadPattern, budget.Spent):
        return False
