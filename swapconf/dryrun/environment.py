"""MINDSPORE + CANN OR SHIM -> ENVIRONMENT: the variables of a dry-run child; returned, never set in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from swapconf.dryrun import DryRunError
from swapconf.dryrun.cann import HOME_VARIABLES, Cann, find_cann, is_shim
from swapconf.dryrun.shim.build import Shim, ensure_shim
from swapconf.upstream.versions import reached
from swapconf.words.phrases import phrase

LEVEL = "MS_SIMULATION_LEVEL"
LEVELS_WITHOUT_CARD = (0, 1)
LEVELS = (0, 1, 2, 3)
_FIRST = "LD_PRELOAD"
_LISTS = ("LD_LIBRARY_PATH", "PYTHONPATH", _FIRST)
_FOLDERS = (*HOME_VARIABLES, "ASCEND_OPP_PATH")
_TIMEOUT_S = 60
_ANY_FOLDER = "2.7.2"  # earlier MindSpores look for "latest" in the path of the library that they were linked with

# Asks an interpreter where its MindSpore is, without importing it, and not in the working folder.
_LOCATE = """
import importlib.metadata, importlib.util, json, sys
sys.path[:] = [folder for folder in sys.path if folder]
spec = importlib.util.find_spec("mindspore")
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
print(json.dumps({
    "folder": list(spec.submodule_search_locations or [""])[0] if spec else "",
    "mindspore": version("mindspore"), "mindformers": version("mindformers"),
    "python": "%d.%d.%d" % sys.version_info[:3],
}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """An interpreter and what is installed for it; a version is empty where it is unknown."""

    executable: str
    python: str
    folder: Path
    mindspore: str
    mindformers: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildEnvironment:
    """``variables``: the complete environment of the child. ``changes``: those that differ from the base."""

    installation: Installation
    runtime: Cann | Shim
    variables: dict[str, str]
    changes: dict[str, str]

    @property
    def source(self) -> Literal["cann", "shim"]:
        """What MindSpore's Ascend plugin will be linked with."""
        return "cann" if isinstance(self.runtime, Cann) else "shim"

    @property
    def shim_dir(self) -> Path | None:
        return self.runtime.folder if isinstance(self.runtime, Shim) else None

    def summary(self) -> dict[str, Any]:
        """What ``swapconf dryrun --env`` shows: plain values, ready for JSON."""
        if isinstance(self.runtime, Cann):
            runtime: dict[str, Any] = {"library": str(self.runtime.library), "found_by": self.runtime.found_by}
        else:
            runtime = {
                "folder": str(self.runtime.folder),
                "machine": self.runtime.machine,
                "symbols": self.runtime.symbols,
                "compiler": self.runtime.compiler,
                "build_seconds": self.runtime.build_seconds,
                "was_cached": self.runtime.was_cached,
            }
        return {
            "source": self.source,
            self.source: runtime,
            "python": self.installation.executable,
            "python_version": self.installation.python,
            "mindspore": self.installation.mindspore,
            "mindspore_folder": str(self.installation.folder),
            "mindformers": self.installation.mindformers,
            "variables": dict(sorted(self.changes.items())),
        }


def prepare(python: str = sys.executable, base: Mapping[str, str] = os.environ, level: int = 1) -> ChildEnvironment:
    """The environment in which ``python`` dry-runs its MindSpore, from the variables of ``base``.

    A real CANN is used if there is one; else the shim is, and built first if need be (some seconds, once). Raises
    DryRunError if MindSpore is not installed for ``python``, if there is neither CANN nor a C compiler, or if ``level``
    needs a card and there is no CANN.
    """
    if level not in LEVELS:
        raise ValueError(f"a simulation level is one of {LEVELS}, not {level!r}")
    clean = without_shim(base)
    installation = locate(python, clean)
    runtime: Cann | Shim | None = find_cann(clean)
    if runtime is None:
        if level not in LEVELS_WITHOUT_CARD:
            raise DryRunError(
                phrase(
                    "simulation level {level} measures on a card, and this machine has no CANN; MindSpore itself runs "
                    "at level 0 (compile only) or 1 (adds memory) here; `swapconf dryrun FILE --level {level}` "
                    "estimates the rest",
                    level=level,
                )
            )
        runtime = ensure_shim(installation.folder, clean)
    changes = child_environment(runtime, clean, level, by_latest=not reached(installation.mindspore, _ANY_FOLDER))
    return ChildEnvironment(installation=installation, runtime=runtime, variables={**clean, **changes}, changes=changes)


def level_to_run(base: Mapping[str, str], level: int) -> int:
    """The simulation level for MindSpore itself: without a CANN 1 stands in for 2 and 3, which dryrun/levels.py
    estimates from it."""
    return level if level in LEVELS_WITHOUT_CARD or find_cann(without_shim(base)) else max(LEVELS_WITHOUT_CARD)


def child_environment(
    runtime: Cann | Shim, base: Mapping[str, str], level: int, *, by_latest: bool = False
) -> dict[str, str]:
    """The variables to set over ``base``. A CANN that the loader finds already is left as it is set up.
    ``by_latest``: the shim's folder has to be called ``latest``."""
    changes = {LEVEL: str(level)}
    if isinstance(runtime, Shim):
        home = runtime.latest if by_latest else runtime.cann
        return {
            **changes,
            **dict.fromkeys(HOME_VARIABLES, str(home)),
            "ASCEND_OPP_PATH": str(home / "opp"),
            "LD_LIBRARY_PATH": _joined(home / "lib64", base.get("LD_LIBRARY_PATH", "")),
            "PYTHONPATH": _joined(runtime.python, base.get("PYTHONPATH", "")),
            **_waiting(runtime, base),
        }
    if runtime.is_set_up:
        return changes
    # What matters here of CANN's own set_env.sh; a variable that the user did set stays.
    home = runtime.home
    packages = f"{home / 'python' / 'site-packages'}:{home / 'opp' / 'built-in' / 'op_impl' / 'ai_core' / 'tbe'}"
    folders = {**dict.fromkeys(HOME_VARIABLES, str(home)), "ASCEND_OPP_PATH": str(home / "opp")}
    return {
        **changes,
        **{name: folder for name, folder in folders.items() if not base.get(name)},
        "LD_LIBRARY_PATH": _joined(home / "lib64", base.get("LD_LIBRARY_PATH", "")),
        "PYTHONPATH": _joined(packages, base.get("PYTHONPATH", "")),
    }


def _waiting(shim: Shim, base: Mapping[str, str]) -> dict[str, str]:
    """The loader splits the list at spaces, too: then a dry run is slower, and nothing else."""
    folder = str(shim.folder)
    return {} if " " in folder or ":" in folder else {_FIRST: _joined(shim.waiting, base.get(_FIRST, ""))}


def without_shim(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` without what an earlier ``prepare`` put there, so that a dry run may start another one."""
    clean = dict(base)
    for name in _LISTS:
        folders = clean.get(name, "").split(":")
        kept = [folder for folder in folders if not (folder and is_shim(Path(folder)))]
        if kept != folders:
            clean[name] = ":".join(kept)
    for name in _FOLDERS:
        if clean.get(name) and is_shim(Path(clean[name])):
            del clean[name]
    return clean


def locate(python: str, base: Mapping[str, str]) -> Installation:
    """What is installed for the interpreter ``python``. Raises DryRunError if it does not start or lacks MindSpore."""
    try:
        done = subprocess.run(
            [python, "-c", _LOCATE],
            env=dict(base),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DryRunError(
            phrase("the interpreter {python!r} cannot be started: {error}", python=python, error=error)
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [phrase("exit code {code}", code=done.returncode)])[-1]
        raise DryRunError(
            phrase("the interpreter {python!r} cannot say which MindSpore it has: {line}", python=python, line=last)
        )
    # A site hook may print, too; the answer is the last line.
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    if not answer["folder"]:
        raise DryRunError(
            phrase(
                "MindSpore is not installed for {python} (Python {version}); install it there: "
                "{python} -m pip install mindspore==2.9.0 mindformers==1.9.0",
                python=python,
                version=answer["python"],
            )
        )
    return Installation(
        executable=python,
        python=answer["python"],
        folder=Path(answer["folder"]),
        mindspore=answer["mindspore"],
        mindformers=answer["mindformers"],
    )


def _joined(first: Path | str, rest: str) -> str:
    # An empty element would stand for the working folder.
    return f"{first}:{rest}" if rest else str(first)
