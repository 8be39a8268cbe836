"""DOCUMENT -> SETTINGS: a training YAML as the child of a dry run reads it.

The child works in a folder of its own, simulates a cluster, and keeps what MindSpore's memory tracker writes.
Everything else of the YAML stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# where MindSpore would write graphs: its memory tracker writes the order of the kernels there, too
_OF_GRAPHS = ("save_graphs", "save_graphs_path")
_SPEED_UP = "parallel_speed_up_json_path"  # of context.ascend_config


def adapted(settings: Mapping[str, Any], started_in: Path) -> dict[str, Any]:
    """``settings``: the YAML as plain values. Relative paths in it mean ``started_in``, as in a training."""
    found: dict[str, Any] = _absolute(settings, started_in)
    if "use_parallel" in found:  # a dry run of parallel ranks is a parallel run, whatever the file's own switch says
        found["use_parallel"] = True
    context = found.get("context")
    if isinstance(context, dict):
        for name in _OF_GRAPHS:
            context.pop(name, None)
        ascend = context.get("ascend_config")
        if isinstance(ascend, dict) and not _is_file(ascend.get(_SPEED_UP)):
            ascend.pop(_SPEED_UP, None)
    return found


def _absolute(value: Any, folder: Path) -> Any:
    """The same with every text that names something in the folder as a whole path."""
    if isinstance(value, Mapping):
        return {key: _absolute(item, folder) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_absolute(item, folder) for item in value]
    if isinstance(value, str) and "/" in value and not value.startswith("/") and "\0" not in value:
        try:
            found = folder / value
            return str(found.resolve()) if found.exists() else value
        except OSError:  # a text that no system takes for a path
            return value
    return value


def _is_file(path: Any) -> bool:
    return isinstance(path, str) and Path(path).is_file()
