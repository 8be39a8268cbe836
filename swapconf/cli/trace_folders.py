"""Where the trace of a rank lies, and what the dry run said of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

_BLOCKS = "memory_block.csv"  # not imported from where it is read: that loads numpy, for every --help
_MOST_NAMES = 8


def trace_folder(given: Path) -> Path:
    """The folder itself, or the only one of a rank below it that has a trace. Raises SwapconfError else."""
    if (given / _BLOCKS).exists():
        return given
    below = sorted(path.parent for path in given.glob(f"rank_*/{_BLOCKS}"))
    if len(below) == 1:
        return below[0]
    if not given.is_dir():
        raise _refused(
            given,
            phrase("this is a file, not the folder of a trace")
            if given.exists()
            else phrase("there is no such folder"),
            phrase("check the path"),
        )
    if below:
        raise _refused(given, phrase("the traces of {ranks} ranks are in this folder", ranks=len(below)), _names(below))
    deeper = sorted({path.parent for pattern in ("*", "*/rank_*") for path in given.glob(f"{pattern}/{_BLOCKS}")})
    raise _refused(
        given,
        phrase("has no memory_block.csv"),
        _names(deeper) if deeper else phrase("run `swapconf dryrun --keep DIR`"),
    )


def _names(folders: Sequence[Path]) -> str:
    return phrase(
        "name one of {folders}",
        folders=", ".join([*map(str, folders[:_MOST_NAMES]), *["..."] * (len(folders) > _MOST_NAMES)]),
    )


def _refused(given: Path, message: str, hint: str) -> SwapconfError:
    return SwapconfError(
        [
            Finding(
                origin=Origin(file=str(given)),
                rule="file-not-found",
                severity=Severity.ERROR,
                message=message,
                hint=hint,
            )
        ]
    )
