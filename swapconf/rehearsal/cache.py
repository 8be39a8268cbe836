"""Reports of earlier dry runs, by content: the YAML after its overrides, versions, rank, level and how it was run."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from swapconf.dryrun.outcome import LayerMoves, Outcome, RankReport
from swapconf.errors import Finding, Origin, Severity
from swapconf.rehearsal.order import Order
from swapconf.resolve.knowledge import Versions

_FORM = 3  # of the files; raised whenever a report changes its meaning


def folder() -> Path:
    """The user's own cache folder for reports."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "swapconf" / "dryrun"


def find(order: Order) -> RankReport | None:
    """The report of an equal order; None when there is none that can be trusted."""
    path = _path(order)
    try:
        if path.stat().st_uid != os.getuid():
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
        return _report(data, order)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(order: Order, report: RankReport) -> None:
    """Keep a report; whole or not at all. A cache that cannot be written is no fault of the run."""
    path = _path(order)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.chmod(0o700)  # the mode above yields to the umask
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as stream:
            try:
                json.dump(asdict(report), stream, default=lambda value: value.value)
                stream.flush()
                os.replace(stream.name, path)
            except BaseException:
                Path(stream.name).unlink(missing_ok=True)
                raise
    except OSError:
        return


def _path(order: Order) -> Path:
    content = {"form": _FORM, "swapconf": version("swapconf"), "versions": asdict(Versions.in_use()),
               "settings": order.document.root.plain(), "rank": order.rank, "level": order.level,
               "machine": repr(order.machine) if order.level > 2 else "",
               "plain": order.plain, "real_data": order.real_data, "fold": order.fold,
               # findings point into the file
               "file": order.document.file, "text": _text(order.document.file)}
    key = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    return folder() / f"{key}.json"


def _text(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _report(data: dict[str, Any], order: Order) -> RankReport:
    data["outcome"] = Outcome(data["outcome"])
    data["moved"] = tuple(LayerMoves(**move) for move in data["moved"])
    data["findings"] = tuple(Finding(**{**found, "origin": Origin(**found["origin"]),
                                        "severity": Severity(found["severity"])}) for found in data["findings"])
    data["strategy_lines"] = tuple(data["strategy_lines"])
    data["folded"] = tuple(data["folded"]) if data["folded"] else None
    return RankReport(**{**data, "file": order.document.file})
