"""What the commands that read profiles share: which files a path means, and why one is not read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import joined, phrase

if TYPE_CHECKING:
    from swapconf.profile.known_files import FileKind, KnownFile
    from swapconf.profile.profile_files import ProfileFiles

_BLOCKS = "memory_block.csv"  # not imported from where it is read: that loads numpy, for every --help
_TABLE = ".csv"
_ENDINGS = (_TABLE, ".db", ".json")


def is_trace(path: Path) -> bool:
    """Whether a dry run left it."""
    return (path / _BLOCKS).exists() or any(path.glob(f"rank_*/{_BLOCKS}"))


def is_profile(path: Path, kinds: frozenset[FileKind]) -> bool:
    """Whether a folder, or its output, has files of one of the kinds."""
    from swapconf.profile import profile_files

    return bool(profile_files.kinds_at(path)[0] & kinds)


def find(path: Path, kinds: frozenset[FileKind], command: str) -> tuple[ProfileFiles, ...]:
    """The profiles that a path means; none for what is no profile.

    Raises SwapconfError for a file of a profiler that the command does not read.
    """
    from swapconf.profile import profile_files

    if not path.exists() or is_trace(path) or (path.is_file() and path.suffix not in _ENDINGS):
        return ()
    found = profile_files.find(path, kinds)
    if not found and path.is_file():
        refuse(path, command)
    if not found and path.is_dir():
        _refuse_folder(path, command)
    return found


_NEEDS = {
    "memory": phrase(
        "let the profiler record memory (profile_memory=True), or give a folder of `swapconf dryrun --keep`"
    ),
    "oom": phrase("let the profiler record memory (profile_memory=True), or give the logs of the run"),
    "timeline": phrase("let the profiler record kernels (level 1), or give a folder of `swapconf dryrun --keep`"),
}


def _refuse_folder(path: Path, command: str) -> None:
    """Raises SwapconfError for a profile that has nothing for a command; a folder of anything else is for others."""
    from swapconf.profile import profile_files

    there, packed = profile_files.kinds_at(path)
    if packed:
        message = phrase("{files}: compressed, and not read", files=", ".join(packed))
        raise _refused(path, message, phrase("unpack them; the profiler writes plain csv"))
    if there:
        message = phrase(
            "this profile has nothing that `swapconf {command}` reads, only {kinds}",
            command=command,
            kinds=", ".join(sorted(kind.value for kind in there)),
        )
        raise _refused(path, message, _NEEDS[command])


def refuse(path: Path, command: str) -> None:
    """Raises SwapconfError where a file is one of a profiler, or a table of which nothing is known."""
    from swapconf.profile.known_files import of_file

    try:
        known = of_file(path)
    except OSError:
        return  # who reads it, tells
    if known is not None:
        raise _refused(
            path,
            phrase(
                "this is {file}, {what}; `swapconf {command}` does not read it",
                file=known.kind.value,
                what=phrase(known.what),
                command=command,
            ),
            instead(known),
        )
    if path.suffix == _TABLE:
        raise _refused(
            path,
            phrase("this is no file of a profiler or of msMemScope that is known here"),
            phrase(
                "give a folder ASCEND_PROFILER_OUTPUT or mindstudio_profiler_output, or a file from there as the tool "
                "wrote it"
            ),
        )


def instead(known: KnownFile) -> str:
    """What to do with a file."""
    if known.instead:
        return phrase(known.instead)
    commands = joined(", ", [f"`swapconf {command}`" for command in known.commands])
    return phrase("give it to {commands}", commands=commands)


def _refused(path: Path, message: str, hint: str) -> SwapconfError:
    origin = Origin(file=str(path))
    return SwapconfError(
        [Finding(origin=origin, rule="trace-header", severity=Severity.ERROR, message=message, hint=hint)]
    )
