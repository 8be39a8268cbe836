"""Where the trace of a rank lies, and what the dry run said of it."""

from __future__ import annotations

from pathlib import Path

from swapconf.errors import Finding, Origin, Severity, SwapconfError
from swapconf.phrases import phrase


def trace_folder(given: Path) -> Path:
    """The folder itself, or the only one below it that has a trace. Raises SwapconfError else."""
    if (given / "memory_block.csv").exists():
        return given
    below = sorted(path.parent for path in given.glob("rank_*/memory_block.csv"))
    if len(below) == 1:
        return below[0]
    what = phrase("name one of {folders}", folders=", ".join(path.name for path in below)) if below else \
        phrase("run `swapconf dryrun --keep DIR`")
    raise SwapconfError([Finding(
        origin=Origin(file=str(given)), rule="file-not-found", severity=Severity.ERROR, hint=what,
        message=phrase("the traces of {ranks} ranks are in this folder", ranks=len(below)) if below else
        phrase("has no memory_block.csv"))])
