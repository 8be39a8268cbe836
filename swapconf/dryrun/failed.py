"""STUDY + FAULT -> FINDING: what stopped a rank, at the line of what `check` foresaw, else where its words point."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swapconf.config.nodes import Document, Node
from swapconf.dryrun.outcome import Fault, RankOutcome
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "framework-error"
_STOPPED = (RankOutcome.STOPPED, RankOutcome.CRASHED)  # the others end for what is no matter of the YAML
_UNKNOWN_CLASS = re.compile(r"class name (\S+) in class registry")  # MindFormerRegister.get_cls


def failed(study: Study, failure: Fault, rank: int, ended: str, log: str) -> Finding:
    """``ended``: how and where the rank ended, in words. ``log``: the path of its log, "" where it is not kept."""
    foreseen = _foreseen(study, failure)
    detail, remedy = failure.detail, ""
    if foreseen is not None:
        remedy = foreseen.hint
        detail = phrase("{detail} ({rule}: {message})", detail=detail, rule=foreseen.rule, message=foreseen.message)
    return Finding(
        origin=_place(study.document, failure) if foreseen is None else foreseen.origin,
        rule=RULE,
        severity=Severity.ERROR,
        message=phrase("rank {rank}: {outcome}: {detail}", rank=rank, outcome=ended, detail=detail),
        hint=failure.outcome.remedy(log, remedy),
    )


def _foreseen(study: Study, failure: Fault) -> Finding | None:
    """The first finding that says of these words that the frameworks stop with them."""
    if failure.outcome not in _STOPPED:
        return None
    known = (finding for finding in study.findings if finding.stops_with)
    return next((finding for finding in known if re.search(finding.stops_with, failure.detail)), None)


def _place(document: Document, failure: Fault) -> Origin:
    """Where a class stands that there is not, if in one place only; else the first path that is written, or the section
    of the first that is; else the file."""
    unknown = _UNKNOWN_CLASS.search(failure.detail)
    stands = set(_places(document, document.root, unknown[1])) if unknown else set()
    if len(stands) == 1:
        return stands.pop()
    for path in (*failure.paths, *(path.partition(".")[0] for path in failure.paths)):
        entry = document.entry_at(path)
        if entry is not None:
            return document.key_origin(entry, path)
    return Origin(file=document.file)


def _places(document: Document, node: Node, value: str, path: str = "") -> Iterator[Origin]:
    """The keys whose value is this one."""
    for key, entry in node.entries.items():
        below = f"{path}.{key}" if path else key
        if entry.value.scalar == value:
            yield document.key_origin(entry, below)
        yield from _places(document, entry.value, value, below)
    for index, item in enumerate(node.items):
        yield from _places(document, item, value, f"{path}[{index}]")
