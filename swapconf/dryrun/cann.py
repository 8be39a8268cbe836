"""ENVIRONMENT -> CANN: the real CANN of this machine, if it has one. It is always preferred to a stand-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.dryrun.shim import loader
from swapconf.dryrun.shim.cache import MARKER

LIBRARY = "libascendcl.so"
HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where to look besides the environment; tests pass folders of their own."""

    loader_cache: Path = loader.LOADER_CACHE
    roots: tuple[Path, ...] = field(default_factory=lambda: (Path("/usr/local/Ascend"), Path.home() / "Ascend"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cann:
    """``library``: its libascendcl.so. ``found_by``: in words, for messages.

    ``is_set_up``: the loader finds it as things are, so that nothing has to be added to the environment.
    """

    library: Path
    found_by: str
    is_set_up: bool

    @property
    def home(self) -> Path:
        """Its installation folder, the one that holds ``lib64``."""
        return self.library.parent.parent


def find_cann(environment: Mapping[str, str], places: Places | None = None) -> Cann | None:
    """The first of: LD_LIBRARY_PATH, the loader's cache, the home variables, the folders that installers use."""
    places = places or Places()
    search = [Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in search:
        if _is_real(folder / LIBRARY):
            return Cann(library=folder / LIBRARY, found_by="LD_LIBRARY_PATH", is_set_up=True)
    for path in loader.find(LIBRARY, places.loader_cache):
        return Cann(library=path, found_by=str(places.loader_cache), is_set_up=True)
    for variable in HOME_VARIABLES:
        library = Path(environment.get(variable) or "/nonexistent") / "lib64" / LIBRARY
        if _is_real(library):
            return Cann(library=library, found_by=variable, is_set_up=False)
    for library in _installed(places):
        return Cann(library=library, found_by="the usual folders", is_set_up=False)
    return None


def is_shim(path: Path) -> bool:
    """Whether ``path`` lies in a shim of ours: a folder or a file of a cache entry."""
    return any((parent / MARKER).is_file() for parent in path.parents[:2])


def _is_real(library: Path) -> bool:
    return library.is_file() and not is_shim(library.parent)


def _installed(places: Places) -> Iterator[Path]:
    """``latest`` before numbered versions, and those from new to old."""
    for root in places.roots:
        for pattern in ("latest/lib64", "*/latest/lib64", "cann/lib64", "*/lib64", "*/*/lib64"):
            yield from (
                folder / LIBRARY for folder in sorted(root.glob(pattern), reverse=True) if _is_real(folder / LIBRARY)
            )
