"""PACKAGE FOLDER -> LIBRARIES: what MindSpore loads for its Ascend plugin, as the dynamic loader finds it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from swapconf.dryrun import DryRunError
from swapconf.dryrun.shim import loader
from swapconf.dryrun.shim.elf import ElfMachine, Library, machine_of, read_library
from swapconf.words.phrases import phrase

PLUGIN = "lib/plugin/libmindspore_ascend.so*"
# Everything else in the plugin's folder is optional to MindSpore: it warns where it does not load, and goes on.
ROOTS = (
    PLUGIN,
    "lib/plugin/libmindspore_ops_ascend.so*",
    "lib/plugin/ascend/libmindspore_graph_ir.so*",
    "lib/plugin/ascend/libhccl_plugin.so*",
)
# Loaded before the plugin in every process. What they define is never stood in for.
HOSTS = ("_c_expression*.so", "lib/*.so*", "lib/plugin/libmindspore_ops_cpu.so*")
# The language runtimes are never stood in for, even where they are not found (another architecture, no loader cache).
RUNTIME = re.compile(r"lib(c|m|dl|pthread|rt|util|gcc_s|stdc\+\+|gomp|atomic|z)\.so|ld-linux|libpython")
# A soname becomes a file name in the cache, so it must be no more than that.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Closure:
    """``plugin``: libraries below lib/plugin that MindSpore loads for Ascend. ``others``: what is there besides them.

    ``missing``: sonames that the plugin needs and that neither the package nor the system has.
    """

    folder: Path
    machine: ElfMachine
    plugin: tuple[Library, ...]
    others: tuple[Library, ...]
    missing: frozenset[str]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that were read, the package's ones before the system's."""
        return tuple(library.path for library in (*self.plugin, *self.others))


def read_closure(folder: Path) -> Closure:
    """Read the installed package ``folder`` (``.../site-packages/mindspore``).

    Raises DryRunError if it has no Ascend plugin.
    """
    folder = _normal(folder)
    plugins = _matches(folder, (PLUGIN,))
    machine = machine_of(plugins[0]) if plugins else None
    if machine is None:
        raise DryRunError(
            phrase(
                "the MindSpore in {folder} has no Ascend plugin ({file}); install the Linux wheel "
                "from PyPI: pip install mindspore==2.9.0",
                folder=folder,
                file=PLUGIN,
            )
        )
    roots = [path for path in _matches(folder, ROOTS) if machine_of(path) is machine]
    hosts = [path for path in _matches(folder, HOSTS) if machine_of(path) is machine]
    loaded, missing = _load(roots, {path.name: path for path in hosts}, machine)
    plugin_folder = folder / "lib" / "plugin"
    plugin = {path: library for path, library in loaded.items() if plugin_folder in path.parents}
    others = {**{path: read_library(path) for path in hosts if path not in loaded}, **loaded}
    return Closure(
        folder=folder,
        machine=machine,
        plugin=tuple(plugin[path] for path in sorted(plugin)),
        others=tuple(others[path] for path in sorted(others) if path not in plugin),
        missing=missing,
    )


def _load(
    roots: Iterable[Path], hosts: Mapping[str, Path], machine: ElfMachine
) -> tuple[dict[Path, Library], frozenset[str]]:
    """The libraries reached from ``roots``, and the sonames that lead nowhere."""
    loaded: dict[Path, Library] = {}
    search: dict[Path, None] = {}  # a set with the order of insertion
    known = {**hosts, **{path.name: path for path in roots}}
    lost: set[str] = set()
    todo = list(roots)
    while todo:
        path = todo.pop()
        if path in loaded:
            continue
        library = loaded[path] = read_library(path)
        search.update(dict.fromkeys(library.search))
        # The run path of a library serves those that are loaded after it, too, so the lost ones get another chance.
        for soname in sorted(lost.union(library.needed)):
            place = known.get(soname) or _find(soname, search, machine)
            if place is None:
                lost.add(soname)
            else:
                lost.discard(soname)
                known[soname] = place
                todo.append(place)
    return loaded, frozenset(soname for soname in lost if _FILE_NAME.fullmatch(soname) and not RUNTIME.match(soname))


def _find(soname: str, search: Iterable[Path], machine: ElfMachine) -> Path | None:
    candidates = (*(folder / soname for folder in search), *loader.find(soname))
    return next((_normal(path) for path in candidates if path.is_file() and machine_of(path) is machine), None)


def _matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def _normal(path: Path) -> Path:
    """One spelling for each file. Links stay, because the loader goes by the place of a link, not of its target."""
    return Path(os.path.abspath(path))
