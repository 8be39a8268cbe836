"""ORDER: what one check is asked for, settled before any file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swapconf.study.settings import Settings
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRequest:
    """One file to check.

    Attributes:
        named: It was named on the command line, so it is checked whatever it holds.
        changes: Overrides of the command line, A.B.C=VALUE each.
    """

    file: str
    named: bool
    settings: Settings
    versions: Versions
    environment: Mapping[str, str]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What became of one file.

    Attributes:
        training: It is a training YAML (or was named); others have no findings.
        is_part: It was found in a folder, and is no training YAML by itself, as one that others include.
        included: The files that it includes.
    """

    file: str
    training: bool = True
    unreadable: bool = False
    findings: tuple[Finding, ...] = ()
    is_part: bool = False
    included: tuple[str, ...] = ()
