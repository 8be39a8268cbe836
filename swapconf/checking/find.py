"""FOLDER -> FILES: the YAML files below a folder that git would not ignore, and which of them are training YAMLs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from swapconf.config import base_config
from swapconf.config.file_kinds import Kind, kind_of
from swapconf.config.misplaced import has_section_below
from swapconf.config.nodes import Document
from swapconf.files.opening import is_readable, read_bytes

if TYPE_CHECKING:
    from re import Match

    from pathspec import GitIgnoreSpec

SUFFIXES = (".yaml", ".yml")
_MAX_IGNORE_BYTES = 2**20
_NEVER = {".git", ".hg", ".svn", "node_modules", "__pycache__"}
_OURS = ("swap_config", "recompute_config")
# beside model.model_config, what a YAML for training has and one for inference or serving need not have
_TRAINING = (
    "trainer",
    "runner_config",
    "runner_wrapper",
    "optimizer",
    "lr_schedule",
    "train_dataset",
    "parallel_config",
    "training_args",
    "distribute_parallel_config",
)
# the PyNative form: sections with common names, beside what else that form has
_PYNATIVE, _BESIDE = ("swap", "recompute", "recompute_comm"), ("training", "parallelism")


def yaml_files(folder: str) -> Iterator[str]:
    """Paths below ``folder``, sorted, symbolic links to folders not followed. Pipes, sockets and devices are no files
    to git, and none here."""
    ignores = _Ignores()
    top = Path(os.path.abspath(folder))
    if any(ignores.cover(above, is_folder=True) for above in (top, *top.parents)):
        return
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(
            name for name in folders if name not in _NEVER and not ignores.cover(here / name, is_folder=True)
        )
        yield from (
            os.path.normpath(here / name)
            for name in sorted(files)
            if name.endswith(SUFFIXES) and not ignores.cover(here / name) and is_readable(here / name)
        )


class _Ignores:
    """What git ignores, each ``.gitignore`` read once; nothing outside of a repository, as in git."""

    def __init__(self) -> None:
        self._specs: dict[Path, tuple[tuple[Path, GitIgnoreSpec], ...]] = {}

    def cover(self, path: Path, *, is_folder: bool = False) -> bool:
        """Whether this path itself is ignored; of several files that speak of it, the nearest decides, as in git."""
        path = Path(os.path.abspath(path))
        for folder, spec in self._of(path.parent):
            verdict = _verdict(spec, path.relative_to(folder).as_posix() + "/" * is_folder)
            if verdict is not None:
                return verdict
        return False

    def _of(self, folder: Path) -> tuple[tuple[Path, GitIgnoreSpec], ...]:
        """The ignore files that hold in a folder, nearest first, up to the top of its repository."""
        if folder not in self._specs:
            top = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
            names = (".gitignore", ".git/info/exclude") if folder == top else (".gitignore",)
            own = tuple((folder, spec) for name in names if top is not None and (spec := _spec(folder / name)))
            self._specs[folder] = own + (self._of(folder.parent) if top not in (None, folder) else ())
        return self._specs[folder]


def _verdict(spec: GitIgnoreSpec, path: str) -> bool | None:
    """Whether the last pattern that matches a path ignores it; None where none does.

    To pathspec, the pattern of a folder matches all below it, too, and its own priorities follow from that. To git, it
    speaks of the folder alone; what is below an ignored folder is not even looked at.
    """
    for pattern in reversed(spec.patterns):
        found = pattern.match_file(path) if pattern.include is not None else None
        if found is not None and _end_of_folder(found.match) in (-1, len(path)):
            return bool(pattern.include)
    return None


def _end_of_folder(match: Match[str]) -> int:
    """Where a pattern of pathspec took a slash for the end of the folder that it names; -1 where it took none."""
    return match.end("ps_d") if "ps_d" in match.re.groupindex else -1


def _spec(file: Path) -> GitIgnoreSpec | None:
    try:
        lines = read_bytes(file, _MAX_IGNORE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec  # only where there is something to ignore

    # pathspec 1.1 lets `a/**` match the folder `a/` itself, git only what is in it, so that `!a/b` can bring back some
    return GitIgnoreSpec.from_lines(line + "/*" if line.rstrip().endswith("/**") else line for line in lines)


def may_be_training(text: str) -> bool:
    """Whether reading the text further can be worth it: a training YAML has one of these words."""
    return any(word in text for word in (*_OURS, "model_config", base_config.KEY, *_BESIDE))


def is_training(document: Document) -> bool:
    """Whether a document is a training YAML: it has a section for swap or recompute, or a model and how to train it."""
    kind = kind_of(document)
    if kind is not Kind.TRAINING:
        return kind is Kind.RL
    ours = any(name in document.root.entries for name in _OURS)
    return ours or is_whole(document) or has_section_below(document)


def is_whole(document: Document) -> bool:
    """Whether a document has a model and how to train it, so that it is no part of another one."""
    keys, model = document.root.entries, document.root.get("model")
    if model is None:
        return False
    trains = "model_config" in model.entries and any(name in keys for name in _TRAINING)
    return trains or (any(name in keys for name in _BESIDE) and any(name in keys for name in _PYNATIVE))


def looks_like_training(text: str) -> bool:
    """The same for a text that cannot be parsed: a line that starts one of our sections."""
    return any(line.startswith(_OURS) for line in text.splitlines())
