"""ORDER: what one check is asked for, settled before any file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swapconf.errors import Finding, Severity
from swapconf.resolve.knowledge import Versions


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a repository settles for its YAMLs, from ``.swapconf.toml`` or ``[tool.swapconf]`` of pyproject.toml.

    ``severity``: by rule, None for off. ``families``: by name of a model class of one's own, the catalog family whose
    layers it has. ``mindspore``, ``mindformers``: versions to check for, None for what is installed here.
    """

    severity: Mapping[str, Severity | None] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    mindspore: str | None = None
    mindformers: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """One file to check. ``named``: it was named on the command line, so it is checked whatever it holds."""

    file: str
    named: bool
    settings: Settings
    versions: Versions
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What became of one file. ``training``: it is a training YAML (or was named); others have no findings."""

    file: str
    training: bool = True
    unreadable: bool = False
    findings: tuple[Finding, ...] = ()
