"""Reports of earlier dry runs, by content: the YAML after its overrides, versions, rank, level and how it was run."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from swapconf.dryrun.adapted import adapted, digest, digests
from swapconf.dryrun.by_step import STEPS, StepMemory
from swapconf.dryrun.outcome import LayerMoves, LayerRecomputes, RankOutcome, RankReport
from swapconf.dryrun.pynative import expert_load
from swapconf.dryrun.rank_order import RankOrder
from swapconf.files import cache_folder, json_object
from swapconf.memory import peak, whole_device
from swapconf.timing.host_demand import HostDemand
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import packed, unpacked

_NAME = "dryrun"
_FORM = 13  # of the files; raised whenever a report changes its meaning

_ASKED_BY = ("MS_", "HCCL_")  # what MindSpore compiles differently by, and what a card holds


def folder() -> Path:
    """The user's own cache folder for reports, made or not."""
    return cache_folder.place(_NAME, os.environ)


def find(order: RankOrder) -> RankReport | None:
    """The report of an equal order; None when there is none that can be trusted."""
    try:
        if not folder().exists():
            return None
        cache_folder.private(_NAME, os.environ)
    except (cache_folder.Untrusted, OSError):
        return None
    path = _path(order)
    return None if path.is_symlink() else read(path, order)


def read(path: Path, order: RankOrder) -> RankReport | None:
    """The report in a file; None where it is damaged."""
    try:
        report = _report(json_object.read(path), order)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        return None
    return report if _fits(report, RankReport) else None


def store(order: RankOrder, report: RankReport) -> None:
    """Keep a report; whole or not at all. A cache that cannot be written is no fault of the run."""
    content = {**asdict(report, dict_factory=_packed), "peak": peak.as_record(report.peak) if report.peak else None}
    text = json.dumps(content, default=lambda value: value.value)
    with suppress(OSError, cache_folder.Untrusted):
        cache_folder.private(_NAME, os.environ)
        cache_folder.replace(_path(order), text)


def _path(order: RankOrder) -> Path:
    settings: Any = order.document.root.plain()
    seen = adapted(settings, Path.cwd())
    content = {
        "form": _FORM,
        "swapconf": version("swapconf"),
        "versions": asdict(Versions.in_use()),
        "settings": settings,
        "seen": seen,
        "register_path": order.register_path,
        "inputs": digests(seen, order.register_path),
        "rank": order.rank,
        "level": order.level,
        "machine": _machine(order),
        "plain": order.plain,
        **({"as_parallel": True} if order.as_parallel else {}),
        **({"launch_blocking": True} if order.launch_blocking else {}),
        **({"expert_load": expert_load.as_record(order.load)} if order.load != expert_load.EVEN else {}),
        "real_data": order.real_data,
        **({"steps": order.steps} if order.steps != STEPS else {}),
        "fold": order.fold,
        **({"hyper_parallel": find_spec("hyper_parallel") is not None} if "parallelism" in settings else {}),
        "variables": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_ASKED_BY)},
        "families": dict(order.settings.families),
        "apply": sorted(order.settings.apply),
        "severity": {rule: str(severity) for rule, severity in order.settings.severity.items()},
        # findings point into the file
        "file": order.document.file,
        "text": digest(order.document.file),
        **({"included": [[one.file, one.text] for one in order.document.included]} if order.document.included else {}),
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    return folder() / f"{key}.json"


def _machine(order: RankOrder) -> str:
    """What a level depends on: 1 and 2 on the card and its CANN, 3 on all."""
    if order.level > 2:
        return repr(order.machine)
    if order.machine is None or order.level < 1:
        return ""
    card = order.machine.hardware.card
    return repr((sorted((name, figure.value) for name, figure in card.items()), order.machine.cann))


def _packed(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: packed(value) if isinstance(value, str) else value for name, value in fields}


def _unpacked(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    """``data`` for a dataclass, with what it declares as text unpacked."""
    return {**data, **{name: unpacked(data[name]) for name, hint in get_type_hints(kind).items() if hint is str}}


def _report(data: dict[str, Any], order: RankOrder) -> RankReport:
    data = _unpacked(RankReport, data)
    data["outcome"] = RankOutcome(data["outcome"])
    data["moved"] = tuple(LayerMoves(**move) for move in data["moved"])
    if data["recomputed"] is not None:
        data["recomputed"] = tuple(LayerRecomputes(**layer) for layer in data["recomputed"])
    data["findings"] = tuple(
        Finding(
            **{
                **_unpacked(Finding, found),
                "origin": Origin(**found["origin"]),
                "severity": Severity(found["severity"]),
            }
        )
        for found in data["findings"]
    )
    data["peak"] = peak.of_record(data["peak"]) if data["peak"] else None
    data["host_demand"] = HostDemand(**data["host_demand"]) if data["host_demand"] else None
    data["beside"] = whole_device.beside_of_record(data["beside"]) if data["beside"] else None
    data["by_step"] = tuple(StepMemory(**step) for step in data["by_step"])
    data["strategy_lines"] = tuple(data["strategy_lines"])
    data["folded"] = tuple(data["folded"]) if data["folded"] else None
    return RankReport(**{**data, "file": order.document.file})


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of the type that a field is declared with."""
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if get_args(hint):
        return any(_fits(value, kind) for kind in get_args(hint))
    if is_dataclass(hint):
        return type(value) is hint and all(
            _fits(getattr(value, name), kind) for name, kind in get_type_hints(hint).items()
        )
    if hint is float:
        return type(value) in (int, float) and isfinite(value)  # type: ignore[arg-type]
    return isinstance(value, str) if hint is str else type(value) is hint  # a phrase is a str, a bool no int here
