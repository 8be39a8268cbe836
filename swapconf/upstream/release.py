"""RELEASE: what one release of MindSpore or mindformers changed, and what was measured with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Package = Literal["mindspore", "mindformers"]


class FactValue(NamedTuple):
    """The value of a fact from a release on, and where it is known from."""

    value: int
    source: str
    # Taken to hold for all earlier releases, too, because none is known that differs.
    for_earlier: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One release. What it does not mention is as in the release before it."""

    package: Package
    version: str
    # Of a mindformers: the MindSpore that it is released for (VERSION_MAP.json in its package).
    released_for: str = ""
    # Of a mindformers: each MindSpore with which it was trained and dry-run (docs/evidence/generations.md).
    measured_with: tuple[str, ...] = ()
    # Measured with this release, and other than before it.
    changes: Mapping[str, FactValue] = field(default_factory=dict)
    # Measured with this release, and as before it.
    confirms: tuple[str, ...] = ()
