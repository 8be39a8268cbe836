"""CATALOG FILE + DELTA -> CATALOG FILE: a family as the cells of another release are.

``families/<release>/<family>.json`` holds what differs from ``families/<family>.json``:

- ``made_with`` and each other key of the family whose value differs, with the value that it has in the release;
- ``operators``: a row for each operator that differs. ``gone``: the release has none of that path. ``after``: the
  operator is new, or stands elsewhere: behind that path, ``""`` for the first. Otherwise the row takes the place of the
  one with its path. ``templates``, ``variants``: names and numbers of those that it holds for, if not for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Of a row, what is about the delta and not about the operator.
WHERE = frozenset({"after", "templates", "variants"})


def applied(family: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """The family's file as the release of the delta has it."""
    variants = [
        {
            **variant,
            "templates": {
                name: {**template, "operators": _changed(template["operators"], _for(delta["operators"], number, name))}
                for name, template in variant["templates"].items()
            },
        }
        for number, variant in enumerate(family["variants"])
    ]
    return {**family, **{key: value for key, value in delta.items() if key != "operators"}, "variants": variants}


def _for(changes: Iterable[dict[str, Any]], variant: int, template: str) -> list[dict[str, Any]]:
    return [
        change
        for change in changes
        if template in change.get("templates", (template,)) and variant in change.get("variants", (variant,))
    ]


def _changed(operators: list[dict[str, Any]], changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not changes:
        return operators
    removed = {change["path"] for change in changes if "gone" in change or "after" in change}
    rows = {row["path"]: row for row in operators if row["path"] not in removed}
    order = list(rows)
    for change in changes:
        path = change["path"]
        if "gone" in change:
            continue
        rows[path] = {key: value for key, value in change.items() if key not in WHERE}
        if "after" in change:
            order.insert(order.index(change["after"]) + 1 if change["after"] else 0, path)
    return [rows[path] for path in order]
