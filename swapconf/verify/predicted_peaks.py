"""JSON -> PEAKS: what `swapconf dryrun --format json` predicted for each rank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.files.opening import read_bytes
from swapconf.words.phrases import phrase

MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedPeaks:
    """The memory that one rank was predicted to need, None where that is not known. ``origin``: by what."""

    used_bytes: int | None
    with_fragments_bytes: int | None
    origin: str


def read(path: Path, config: str) -> dict[int, PredictedPeaks]:
    """By rank. Of reports on several YAMLs, those on the one that is named like ``config``.

    Raises ValueError, which says what is taken, and OSError.
    """
    data = read_bytes(path, MAX_BYTES)
    try:
        records = json.loads(data)
        if not isinstance(records, list) or len(data) > MAX_BYTES:
            raise ValueError
        files = {Path(str(record["file"])).name for record in records}
        found = {
            _natural(record["rank"]): _peaks(record)
            for record in records
            if len(files) == 1 or Path(str(record["file"])).name == Path(config).name
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(phrase("{file}: this is not what `swapconf dryrun --format json` writes", file=path)) from None
    if not found:
        raise ValueError(
            phrase(
                "{file}: no report is about {config}, only about {others}",
                file=path,
                config=Path(config).name,
                others=", ".join(sorted(files)[:8]),
            )
        )
    return found


def _peaks(record: Mapping[str, Any]) -> PredictedPeaks:
    used, fragments = record["used_peak_bytes"], record["with_fragments_peak_bytes"]
    return PredictedPeaks(
        used_bytes=None if used is None else _natural(used),
        origin=str(record["origin"])[:200],
        with_fragments_bytes=None if fragments is None else _natural(fragments),
    )


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value
