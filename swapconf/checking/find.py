"""FOLDER -> FILES: the YAML files below a folder that git would not ignore, and which of them are training YAMLs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from swapconf.formats.nodes import Document

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RULES = {"no-training-yaml": ("warning", "A folder that was to be checked holds no training YAML that git does not "
                                         "ignore.")}

SUFFIXES = (".yaml", ".yml")
_NEVER = {".git", ".hg", ".svn", "node_modules", "__pycache__"}
_OURS = ("swap_config", "recompute_config")
# beside model.model_config, what a YAML for training has and one for inference or serving need not have
_TRAINING = ("trainer", "runner_config", "runner_wrapper", "optimizer", "lr_schedule", "train_dataset",
             "parallel_config", "training_args", "distribute_parallel_config")
# the PyNative form: sections with common names, beside what else that form has
_PYNATIVE, _BESIDE = ("swap", "recompute", "recompute_comm"), ("training", "parallelism")


def yaml_files(folder: str) -> Iterator[str]:
    """Paths below ``folder``, sorted, symbolic links to folders not followed."""
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(name for name in folders if name not in _NEVER and not ignored(here / name, is_folder=True))
        yield from (os.path.normpath(here / name) for name in sorted(files)
                    if name.endswith(SUFFIXES) and not ignored(here / name))


def ignored(path: Path, *, is_folder: bool = False) -> bool:
    """Whether a ``.gitignore`` excludes this path itself; of several, the one nearest to it decides, as in git."""
    path = Path(os.path.abspath(path))
    for folder, spec in _specs(path.parent):
        verdict = spec.check_file(path.relative_to(folder).as_posix() + "/" * is_folder).include
        if verdict is not None:
            return verdict
    return False


@cache
def _specs(folder: Path) -> tuple[tuple[Path, GitIgnoreSpec], ...]:
    """The ignore files that hold in a folder, nearest first, up to the top of its repository."""
    own = tuple((folder, spec) for name in (".gitignore", ".git/info/exclude") if (spec := _spec(folder / name)))
    if (folder / ".git").exists() or folder.parent == folder:
        return own
    return own + _specs(folder.parent)


def _spec(file: Path) -> GitIgnoreSpec | None:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec  # only where there is something to ignore

    return GitIgnoreSpec.from_lines(lines)


def may_be_training(text: str) -> bool:
    """Whether reading the text further can be worth it: a training YAML has one of these words."""
    return any(word in text for word in (*_OURS, "model_config", *_BESIDE))


def is_training(document: Document) -> bool:
    """Whether a document is a training YAML: it has a section for swap or recompute, or a model and how to train it."""
    keys = document.root.entries
    model = document.root.get("model")
    trains = model is not None and "model_config" in model.entries and any(name in keys for name in _TRAINING)
    native = model is not None and any(name in keys for name in _BESIDE) and any(name in keys for name in _PYNATIVE)
    return trains or native or any(name in keys for name in _OURS)


def looks_like_training(text: str) -> bool:
    """The same for a text that cannot be parsed: a line that starts one of our sections."""
    return any(line.startswith(_OURS) for line in text.splitlines())
