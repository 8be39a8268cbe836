"""PATH -> PROFILES: the files of each profiled rank, in whatever layout they lie.

- ``ASCEND_PROFILER_OUTPUT``, or ``WORKER_TIME_ascend_pt`` or ``_ascend_ms`` with it inside, or a folder of several of
  these, one for each rank; ``profiler_info_RANK.json`` beside it tells the rank.
- ``PROF_*`` of msprof with ``mindstudio_profiler_output`` inside, or a folder of several of these.
- A folder of msMemScope: ``device_*/dump``, ``dump``.
- One file alone.

What swapconf itself wrote of a simulated step has the same form, and says so in profiler_metadata.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapconf.files import json_object
from swapconf.profile.known_files import FileKind, of_file, of_name

METADATA = "profiler_metadata.json"
_INFO = re.compile(r"profiler_info_(\d{1,6})\.json")
_PACKED = (".xz", ".gz", ".bz2", ".zip", ".zst")
# where files may lie below what is given, the nearest first
_LAYOUTS = (
    (".",),
    ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output", "dump"),
    (
        *("*_ascend_pt/ASCEND_PROFILER_OUTPUT", "*_ascend_ms/ASCEND_PROFILER_OUTPUT"),
        *("PROF_*/mindstudio_profiler_output", "device_*/dump", "*/ASCEND_PROFILER_OUTPUT"),
    ),
    (
        *("*/*_ascend_pt/ASCEND_PROFILER_OUTPUT", "*/*_ascend_ms/ASCEND_PROFILER_OUTPUT"),
        *("*/PROF_*/mindstudio_profiler_output", "*/device_*/dump"),
    ),
)
_NEAR = 2
MOST_FOLDERS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFiles:
    """Of one rank.

    Attributes:
        place: The folder, or the file where one alone was given.
        rank: None where it is not told.
        files: By kind, slices in order, of what was written several times the newest; of dumps, which each process
            writes, all.
        packed: Those that are compressed and were not read.
        is_simulated: Whether swapconf wrote them.
    """

    place: Path
    rank: int | None
    files: Mapping[FileKind, Sequence[Path]]
    packed: tuple[str, ...] = ()
    is_simulated: bool = False

    def of(self, *kinds: FileKind) -> Sequence[Path]:
        """Those of the first of the kinds that there is."""
        return next((self.files[kind] for kind in kinds if kind in self.files), ())


def find(path: Path, kinds: frozenset[FileKind]) -> tuple[ProfileFiles, ...]:
    """All at or below a path that have a file of one of the kinds, by rank, then by name; none where there is none."""
    if path.is_file():
        known = of_file(path)
        return (_of_file(path, known.kind),) if known is not None and known.kind in kinds else ()
    for layout in _LAYOUTS:
        folders = sorted({folder for pattern in layout for folder in _folders(path, pattern)})[:MOST_FOLDERS]
        found = [one for folder in folders if (one := _of_folder(folder)) is not None and kinds & one.files.keys()]
        if found:
            return tuple(sorted(found, key=lambda one: (one.rank is None, one.rank or 0)))
    return ()


def kinds_at(path: Path) -> tuple[frozenset[FileKind], tuple[str, ...]]:
    """(what is there of any kind, what of it is compressed and would not be read) in a folder or its output."""
    near = [one for layout in _LAYOUTS[:_NEAR] for pattern in layout for one in _folders(path, pattern)]
    found = [one for folder in near if (one := _of_folder(folder)) is not None]
    return (frozenset(kind for one in found for kind in one.files), tuple(name for one in found for name in one.packed))


def _folders(path: Path, pattern: str) -> Iterator[Path]:
    found = [path] if pattern == "." else path.glob(pattern)
    yield from (folder for folder in found if folder.is_dir())


def _of_file(path: Path, kind: FileKind) -> ProfileFiles:
    folder = path.parent
    return ProfileFiles(place=path, rank=_rank(folder), files={kind: (path,)}, is_simulated=_simulated(folder))


def _of_folder(folder: Path) -> ProfileFiles | None:
    files: dict[FileKind, list[Path]] = {}
    packed = []
    try:
        listed = sorted(folder.iterdir(), key=_slice)
    except OSError:
        return None
    for path in listed:
        if path.name.endswith(_PACKED):
            known = of_name(path.stem)
            packed += [path.name] * (known is not None)
        elif (known := of_name(path.name)) is not None and path.is_file():
            files.setdefault(known.kind, []).append(path)
    if not files and not packed:
        return None
    return ProfileFiles(
        place=folder,
        rank=_rank(folder),
        files={kind: found if kind is FileKind.DUMP else _newest(found) for kind, found in files.items()},
        packed=tuple(packed),
        is_simulated=_simulated(folder),
    )


def _slice(path: Path) -> tuple[int, str]:
    """The first slice has no number."""
    number = re.search(r"_slice_(\d{1,9})", path.name)
    return int(number[1]) if number else -1, path.name


def _newest(paths: Sequence[Path]) -> Sequence[Path]:
    """Of what a tool wrote several times, which has the time in its name, the last first slice with all that follow."""
    whole = [path for path in paths if _slice(path)[0] < 0]
    if not whole:
        return paths
    last = max(whole, key=_time)
    return [last, *(path for path in paths if _slice(path)[0] >= 0 and _time(path) >= _time(last))]


def _time(path: Path) -> str:
    found = re.search(r"_(\d{8,20})\.\w+$", path.name)
    return found[1] if found else ""


def _rank(folder: Path) -> int | None:
    """By the file beside the folder of output."""
    names = (match for path in folder.parent.glob("profiler_info_*.json") if (match := _INFO.fullmatch(path.name)))
    return next((int(match[1]) for match in names), None)


def _simulated(folder: Path) -> bool:
    return "swapconf" in json_object.read(folder.parent / METADATA)
