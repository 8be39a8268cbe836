"""FINDINGS -> PLACES: what machines ask of a finding's place: a path from the top of the repository, a lasting name."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence

from swapconf.words.findings import Finding


def shown_path(file: str) -> str:
    """The path from the current folder, with slashes, where the file is below it; else the absolute path."""
    relative = os.path.relpath(file)
    outside = relative == os.pardir or relative.startswith(os.pardir + os.sep)
    return (os.path.abspath(file) if outside else relative).replace(os.sep, "/")


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """One per finding: the same again while file, rule and YAML path are the same, whatever moves to another line.

    Findings that are alike in all three are told apart by their order.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    made = []
    for finding in findings:
        key = (shown_path(finding.origin.file), finding.rule, finding.origin.path)
        made.append(hashlib.sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "surrogateescape")).hexdigest())
        seen[key] += 1
    return made
