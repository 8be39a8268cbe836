"""C -> SHARED LIBRARY: with whichever C compiler this machine has."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swapconf.dryrun import DryRunError
from swapconf.dryrun.shim.elf import ElfMachine, read_library
from swapconf.dryrun.shim.plan import Plan
from swapconf.words import extras
from swapconf.words.phrases import joined, phrase, plural

# The source needs no headers, no C library and no start files, so that a compiler alone is enough.
FLAGS = ("-O1", "-w", "-shared", "-fPIC", "-fno-builtin", "-fno-sanitize=all", "-nostdlib", "-nostartfiles")
COMMON_NAMES = ("cc", "gcc", "clang")
TIMEOUT_S = 300
HOW_TO_GET_ONE = phrase(
    "install one: `apt install gcc` (Debian, Ubuntu), `dnf install gcc` (openEuler, Fedora), or "
    "without root `{command}`; or name one in the variable CC",
    command=extras.command("zig"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """``command``: the words before the options."""

    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)


def find_compilers(environment: Mapping[str, str]) -> tuple[Compiler, ...]:
    """What $CC names, alone; else those on PATH, then zig's from PyPI. Raises DryRunError if there is none."""
    path = environment.get("PATH", os.defpath)
    try:
        chosen = shlex.split(environment.get("CC", ""))
    except ValueError as error:
        raise DryRunError(
            phrase("the variable CC is no command line ({error}): {value}", error=error, value=environment["CC"])
        ) from error
    if chosen:
        if shutil.which(chosen[0], path=path) is None:
            raise DryRunError(
                phrase(
                    "the variable CC names the C compiler {name!r}, which is not there; correct it, "
                    "or unset it to use another one",
                    name=chosen[0],
                )
            )
        return (Compiler(command=tuple(chosen)),)
    found = [Compiler(command=(place,)) for name in COMMON_NAMES if (place := shutil.which(name, path=path))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append(Compiler(command=(sys.executable, "-m", "ziglang", "cc")))
    if not found:
        raise DryRunError(
            phrase(
                "a dry run without CANN builds a small library once, and there is no C compiler here; {remedy}",
                remedy=HOW_TO_GET_ONE,
            )
        )
    return tuple(found)


def compile_shim(plan: Plan, source: Path, target: Path, environment: Mapping[str, str]) -> Compiler:
    """Compile ``source`` with the first compiler that can. Raises DryRunError with what each of them said."""
    complaints = []
    for compiler in find_compilers(environment):
        complaint = _compile(compiler, plan, source, target, environment)
        if not complaint:
            return compiler
        complaints.append(phrase("{compiler}: {complaint}", compiler=compiler, complaint=complaint))
    raise DryRunError(
        phrase(
            "no C compiler here can build a shared library; {complaints}; {remedy}",
            complaints=joined("; ", complaints),
            remedy=HOW_TO_GET_ONE,
        )
    )


def _compile(compiler: Compiler, plan: Plan, source: Path, target: Path, environment: Mapping[str, str]) -> str:
    """What went wrong, in a few lines; empty if nothing did."""
    command = [*compiler.command, *_target(compiler, plan.machine), *FLAGS, str(source), "-o", str(target)]
    caches = {name: str(target.parent / ".zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    try:
        done = subprocess.run(
            command,
            env={**environment, **caches, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        shutil.rmtree(target.parent / ".zig", ignore_errors=True)
    if done.returncode != 0:
        last = joined("\n", (done.stderr or done.stdout).strip().splitlines()[-5:])
        return last or phrase("exit code {code}", code=done.returncode)
    return _check(plan, target)


def _target(compiler: Compiler, machine: ElfMachine) -> tuple[str, ...]:
    """zig compiles for any machine; the others for theirs, which ``_check`` verifies."""
    return ("-target", f"{machine.value}-linux-gnu") if "ziglang" in compiler.command else ()


def _check(plan: Plan, target: Path) -> str:
    library = read_library(target)
    if library.machine is not plan.machine:
        return phrase(
            "it compiles for {machine}, but MindSpore's libraries are for {wanted}",
            machine=library.machine.value,
            wanted=plan.machine.value,
        )
    lost = {stand_in.symbol for stand_in in plan.stand_ins} - library.defined
    return (
        plural(
            len(lost),
            "{count} function is missing in the result, such as {function}",
            "{count} functions are missing in the result, such as {function}",
            function=min(lost),
        )
        if lost
        else ""
    )
