"""PEAKS of a rank -> COLUMNS, whoever shows them: the table of `dryrun`, the page of all stages, the JSON forms."""

from __future__ import annotations

from typing import Protocol

from swapconf.words.columns import Column, size
from swapconf.words.phrases import phrase


class HasPeaks(Protocol):
    """What a run of one rank told of its memory; None where it did not get that far."""

    @property
    def used_peak_bytes(self) -> int | None: ...
    @property
    def with_fragments_peak_bytes(self) -> int | None: ...
    @property
    def reserved_bytes(self) -> int | None: ...
    @property
    def host_bytes(self) -> int | None: ...
    @property
    def headroom_bytes(self) -> int | None: ...


PEAKS: tuple[Column[HasPeaks], ...] = (
    size(phrase("used peak"), lambda rank: rank.used_peak_bytes, "used_peak_bytes"),
    size(phrase("with fragments"), lambda rank: rank.with_fragments_peak_bytes, "with_fragments_peak_bytes"),
    size(phrase("reserved"), lambda rank: rank.reserved_bytes, "reserved_bytes"),
    size(phrase("host"), lambda rank: rank.host_bytes, "host_bytes"),
    size(phrase("headroom"), lambda rank: rank.headroom_bytes, "headroom_bytes"),
)
