r"""PATTERN <-> PATTERN: graph mode's, name by name, and PyNative's, one regular expression for the whole path.

Graph mode splits at every backslash-dot and matches each element with a whole name, so ``.*\.matmul`` reaches down one
level. PyNative matches the path as a whole, dots included, so there ``.*\.matmul`` reaches down any number of levels.
Names hold word characters only, so an element means the same in both as soon as it cannot match a dot.
"""

from __future__ import annotations

import regex

SEPARATOR = r"\."
_NAME = r"[^.]"  # one character of a name, PyNative's counterpart of graph mode's dot
# what an element may be made of: names, groups, alternatives, wildcards and plain repetition
_ELEMENT = regex.compile(r"(?:\w|[|.*+?]|\((?:\?:)?|\))+")
_MODULE_ELEMENT = regex.compile(r"(?:\w|[|*+?]|\[\^\.\]|\((?:\?:)?|\))+")


def to_module_path(pattern: str) -> str | None:
    """The PyNative pattern that matches the same paths, None when this form of it is not known."""
    elements = pattern.split(SEPARATOR)
    if not all(_ELEMENT.fullmatch(element) and _compiles(element) for element in elements):
        return None
    return SEPARATOR.join(_grouped(element).replace(".", _NAME) for element in elements)


def to_elements(path: str) -> str | None:
    """The graph-mode pattern that matches the same paths, None when there is none of this form.

    A lone dot between names is read as the separator: no name holds anything that it could match otherwise.
    """
    if regex.fullmatch(r"\w+(?:\\?\.\w+)*", path):
        return SEPARATOR.join(path.replace(SEPARATOR, ".").split("."))
    elements = path.split(SEPARATOR)
    if not all(_MODULE_ELEMENT.fullmatch(element) and _compiles(element) for element in elements):
        return None
    if len(elements) > 1 and any(_grouped(element) != element for element in elements):
        return None  # `a|b\.c` is `a` or `b.c` in PyNative, and `a` or `b`, then `c`, in graph mode
    return SEPARATOR.join(_ungrouped(element.replace(_NAME, ".")) for element in elements)


def _grouped(element: str) -> str:
    """An element whose alternatives stay inside it when it becomes part of a longer expression."""
    depth = 0
    for char in element:
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            return f"(?:{element})"
    return element


def _ungrouped(element: str) -> str:
    """The group that `_grouped` made is dropped again where it was made: around a whole element."""
    inner = element[3:-1]
    return inner if element.startswith("(?:") and element.endswith(")") and _grouped(inner) == element else element


def _compiles(element: str) -> bool:
    try:
        regex.compile(element)
    except regex.error:
        return False
    return True
