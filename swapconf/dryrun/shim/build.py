"""PACKAGE FOLDER -> SHIM: build the stand-in for the installed MindSpore once; afterwards find it in the cache."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapconf.dryrun import DryRunError
from swapconf.dryrun.shim.cache import MARKER, cache_folder, find_entry, new_entry, read_json, write_json
from swapconf.words import extras
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    from swapconf.dryrun.shim.libraries import Closure

LIBRARY = "libswapconf_shim.so"
WAITING = "libswapconf_waiting.so"
# MindSpore imports this to see that HCCL is installed, and writes it to its debug log.
_HCCL_MODULE = '__sys_version__ = "0.0.0"  # a stand-in made by swapconf\n'


@dataclass(frozen=True, kw_only=True, slots=True)
class Shim:
    """A built shim.

    Attributes:
        folder: Its cache entry.
        was_cached: Nothing had to be built.
    """

    folder: Path
    machine: str
    symbols: int
    compiler: str
    build_seconds: float
    was_cached: bool

    @property
    def cann(self) -> Path:
        """What stands in for CANN's installation folder."""
        return self.folder / "cann"

    @property
    def latest(self) -> Path:
        """The same folder by the name that CANN's own installation has."""
        return self.folder / "latest"

    @property
    def waiting(self) -> Path:
        """What keeps the threads of a simulated device from running for nothing; to be loaded before MindSpore."""
        return self.folder / WAITING

    @property
    def python(self) -> Path:
        """What stands in for CANN's Python packages."""
        return self.folder / "python"


def ensure_shim(package: Path, environment: Mapping[str, str]) -> Shim:
    """The shim for the MindSpore installed in ``package``, built now if need be.

    ``environment`` says where the cache and the compilers are. Raises DryRunError if there is no compiler, no Ascend
    plugin, or a cache that cannot be used.
    """
    folder = cache_folder(environment)
    index = folder / "index" / f"{_digest([str(package.resolve()).encode()])}.json"
    entry = _indexed(folder, index)
    if entry is None:
        return _build(package, folder, index, environment)
    return _described(entry, was_cached=True)


def _indexed(folder: Path, index: Path) -> Path | None:
    """The entry that the index names, if the generator and every file it was made from are as they were."""
    known = read_json(index)
    files = known.get("files")
    if known.get("generator") != generator_version() or not isinstance(files, dict) or not files:
        return None
    if any(_stamp(Path(name)) != stamp for name, stamp in files.items()):
        return None
    return find_entry(folder, str(known.get("key")))


def _build(package: Path, folder: Path, index: Path, environment: Mapping[str, str]) -> Shim:
    # Reading libraries needs pyelftools and a second; with an indexed shim or a real CANN, neither is spent.
    try:
        from swapconf.dryrun.shim import libraries
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "elftools":
            raise
        raise DryRunError(
            phrase(
                "a dry run without CANN reads MindSpore's libraries, for which pyelftools is missing: {command}",
                command=extras.command("dryrun"),
            )
        ) from error
    started = time.monotonic()
    closure = libraries.read_closure(package)
    stamps = {str(path): _stamp(path) for path in closure.paths}
    key = _content_key(closure.machine.value, closure.paths)
    entry = find_entry(folder, key)
    if entry is None:
        with new_entry(folder, key) as building:
            facts = _fill(building, closure, environment)
            write_json(building / MARKER, {**facts, "build_seconds": round(time.monotonic() - started, 2)})
        entry = find_entry(folder, key)
        if entry is None:
            raise DryRunError(
                phrase(
                    "the shim was built, but could not be moved to {folder}; remove what is there", folder=folder / key
                )
            )
    write_json(index, {"generator": generator_version(), "key": key, "files": stamps})
    return _described(entry, was_cached=False)


def _fill(building: Path, closure: Closure, environment: Mapping[str, str]) -> dict[str, Any]:
    """Make what stands in for CANN in the folder ``building``; the facts about it."""
    from swapconf.dryrun.shim.c_source import PROCESS_REPORT, WAITING_SOURCE, c_source
    from swapconf.dryrun.shim.compiler import compile_shim
    from swapconf.dryrun.shim.plan import Plan, StandIn, make_plan
    from swapconf.dryrun.shim.symbols import Zero

    plan = make_plan(closure)
    lib64, hccl = (building / name for name in ("cann/lib64", "python/hccl"))
    # MindSpore 2.7.0 and 2.7.1 want to see a folder of kernels beside that of operators, and look at nothing in it
    for folder in (lib64, hccl, building / "cann/opp", building / "cann/opp_kernel"):
        folder.mkdir(parents=True)
    (building / "latest").symlink_to("cann")
    source = building / "shim.c"
    source.write_text(c_source(plan), encoding="ascii")
    compiler = compile_shim(plan, source, lib64 / LIBRARY, environment)
    waiting = building / "waiting.c"
    waiting.write_text(WAITING_SOURCE, encoding="ascii")
    compile_shim(
        Plan(machine=plan.machine, stand_ins=(StandIn(symbol=PROCESS_REPORT, behaviour=Zero()),), sonames=()),
        waiting,
        building / WAITING,
        environment,
    )
    for soname in plan.sonames:
        (lib64 / soname).symlink_to(LIBRARY)
    (hccl / "__init__.py").touch()
    (hccl / "sys_version.py").write_text(_HCCL_MODULE, encoding="ascii")
    return {
        "made_from": str(closure.folder),
        "machine": plan.machine.value,
        "symbols": len(plan.stand_ins),
        "compiler": str(compiler),
    }


def _described(entry: Path, *, was_cached: bool) -> Shim:
    facts = read_json(entry / MARKER)
    return Shim(
        folder=entry,
        machine=str(facts.get("machine", "")),
        symbols=int(facts.get("symbols", 0)),
        compiler=str(facts.get("compiler", "")),
        build_seconds=float(facts.get("build_seconds", 0.0)),
        was_cached=was_cached,
    )


@cache
def generator_version() -> str:
    """A digest of the modules that make a shim: it changes with them and cannot be forgotten."""
    return _digest(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


def _content_key(machine: str, paths: Iterable[Path]) -> str:
    return _digest([generator_version().encode(), machine.encode(), *(_file_digest(path) for path in paths)])


def _file_digest(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _stamp(path: Path) -> list[int]:
    """Size in bytes and time of modification in nanoseconds; empty if the file is gone."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
