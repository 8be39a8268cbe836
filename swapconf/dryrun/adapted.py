"""DOCUMENT -> SETTINGS: a training YAML as the child of a dry run reads it.

The child works in a folder of its own, simulates a cluster, and keeps what MindSpore's memory tracker writes.
Everything else of the YAML stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapconf.config import pretrained
from swapconf.config.yaml_document import MAX_BYTES
from swapconf.files.opening import read_bytes

# where MindSpore would write graphs: its memory tracker writes the order of the kernels there, too
_OF_GRAPHS = ("save_graphs", "save_graphs_path")
_NAMES_A_PATH = ("_dir", "_path", "_file")
_SOURCES_OF_MODELS = "research"  # models in mindformers' repository that are not in its package
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
        if "device_target" in context:  # `check` warns of another one
            context["device_target"] = "Ascend"
        ascend = context.get("ascend_config")
        if isinstance(ascend, dict) and not _is_file(ascend.get(_SPEED_UP)):
            ascend.pop(_SPEED_UP, None)
    return found


def code_folders(register_path: str, started_in: Path) -> tuple[str, ...]:
    """Where a training would find the modules that the model's own code imports: in the folder that it is started in,
    and in that of mindformers' sources where ``register_path`` lies in it (``from research.x import``)."""
    folders = [started_in]
    if register_path:
        code = Path(register_path)
        folders += [folder.parent for folder in (code, *code.parents) if folder.name == _SOURCES_OF_MODELS]
    return tuple(dict.fromkeys(map(str, folders)))


def inputs(settings: Mapping[str, Any], register_path: str) -> tuple[Path, ...]:
    """The files beside the YAML that a child reads, as far as they are there. ``settings``: adapted ones.
    ``register_path``: the folder with the code of models that mindformers does not have, "" for none."""
    context = settings.get("context")
    ascend = context.get("ascend_config") if isinstance(context, Mapping) else None
    model = settings.get(pretrained.KEY)
    named = [
        Path(folder) / name
        for folder, name in (
            (ascend.get(_SPEED_UP) if isinstance(ascend, Mapping) else None, ""),
            (model, pretrained.FILE),
        )
        if isinstance(folder, str)
    ]
    code = sorted(Path(register_path).glob("*.py")) if register_path else []
    return (*filter(Path.is_file, named), *code)


def digests(settings: Mapping[str, Any], register_path: str) -> list[list[str]]:
    """(path, digest) of each of the inputs, as JSON keeps it."""
    return [[str(path), digest(path)] for path in inputs(settings, register_path)]


def digest(file: str | Path) -> str:
    """Of what is in a file; "" where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(file, MAX_BYTES)).hexdigest()
    except OSError:
        return ""


def _absolute(value: Any, folder: Path, key: str = "") -> Any:
    """The same with every text that names something in the folder as a whole path."""
    if isinstance(value, Mapping):
        return {name: _absolute(item, folder, str(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_absolute(item, folder, key) for item in value]
    if isinstance(value, str) and ("/" in value or key.endswith(_NAMES_A_PATH)) and "\0" not in value and value:
        try:
            found = folder / value
            return str(found.resolve()) if found.exists() else value
        except OSError:  # a text that no system takes for a path
            return value
    return value


def _is_file(path: Any) -> bool:
    return isinstance(path, str) and Path(path).is_file()
