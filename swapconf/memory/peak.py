"""PEAK: what holds the device memory of one rank at its peak, in a few parts, and what of it layers can give back.

Small enough to travel in every report, so that nobody has to read the trace again. What a part may be stands in
`PeakPart`; `memory/holders.py` fills it from a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from swapconf.words.phrases import mark

_WHEN = ("forward", "backward", "optimizer", "")


class PeakPart(Enum):
    """What holds memory. ``LAYERS``: what the forward pass of layers made, which swap and recompute can give back.
    ``LOSS``: the head, the loss and their gradients, which they cannot."""

    WEIGHTS = mark("weights")
    OPTIMIZER = mark("optimizer state")
    GRADIENTS = mark("gradients")
    LAYERS = mark("activations of layers")
    RECOMPUTED = mark("recomputed")
    SWAP = mark("swap buffers")
    LOSS = mark("head and loss")
    OUTSIDE = mark("other activations")
    COMMUNICATION = mark("communication")
    WORKSPACE = mark("workspace")
    CONSTANTS = mark("constants")
    TEMPORARY = mark("temporaries")


_GIVEN_BACK = frozenset({PeakPart.LAYERS, PeakPart.RECOMPUTED, PeakPart.SWAP})
_OF_EVERY_LAYER = frozenset(
    {PeakPart.WEIGHTS, PeakPart.OPTIMIZER, PeakPart.GRADIENTS, PeakPart.LAYERS, PeakPart.TEMPORARY}
)


@dataclass(frozen=True, slots=True)
class Share:
    """``in_layers_bytes``: what of the size stays for every layer of its own, so that it grows with their number."""

    part: PeakPart
    size_bytes: int
    in_layers_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What is in use at one moment, the largest first. ``when``: "forward", "backward" or "optimizer", the pass that
    runs, "" where the trace does not tell."""

    when: str
    shares: tuple[Share, ...]

    @property
    def used_bytes(self) -> int:
        return sum(share.size_bytes for share in self.shares)

    def bytes_of(self, *parts: PeakPart) -> int:
        return sum(share.size_bytes for share in self.shares if share.part in parts)

    @property
    def largest(self) -> Share | None:
        return self.shares[0] if self.shares else None


@dataclass(frozen=True, slots=True)
class Peak:
    """``at``: the first moment of the peak. ``rest``: the highest moment when layers keep nothing of their forward
    pass, which no swap and no recompute of layers gets below; it can be another one. ``host_optimizer_bytes``: what of
    the host memory is optimizer state. ``is_grown``: from a run of fewer layers, see `grown`. ``is_native``: of a run
    in PyNative mode, whose settings have other names."""

    at: Moment
    rest: Moment
    host_optimizer_bytes: int = 0
    is_grown: bool = False
    is_native: bool = False


def grown(peak: Peak, used_bytes: int, rest_bytes: int | None = None) -> Peak:
    """The peak of a model with more layers, of which the used peak is known: what every layer holds for itself is
    multiplied so that the sum is ``used_bytes``, the rest stays; optimizer state on the host grows as the weights do.
    ``rest_bytes``: of the moment without activations, where that is known, too. Where it is above the peak, the peak is
    there.

    An estimate: of 12 layers of a Qwen3, folded to 6, the large parts were within 0.4 % of those of a whole run, and
    the moment without activations 1.0 % above it (MindSpore 2.9.0)."""
    factor = _factor(peak.at, used_bytes)
    at, rest = _times(peak.at, factor, used_bytes), _times(peak.rest, factor)
    if rest_bytes is not None:
        rest = _times(peak.rest, _factor(peak.rest, rest_bytes), rest_bytes)
    if rest.used_bytes > used_bytes:
        at = rest = _times(peak.rest, _factor(peak.rest, used_bytes), used_bytes)
    before = peak.at.bytes_of(PeakPart.WEIGHTS)
    host = round(peak.host_optimizer_bytes * at.bytes_of(PeakPart.WEIGHTS) / before) if before else 0
    return Peak(at, rest, host, is_grown=True)


def _factor(moment: Moment, used_bytes: int) -> float:
    inside = sum(share.in_layers_bytes for share in moment.shares)
    return max(0.0, 1 + (used_bytes - moment.used_bytes) / inside) if inside else 1.0


def _times(moment: Moment, factor: float, used_bytes: int | None = None) -> Moment:
    """``used_bytes``: what the sum is, to the byte."""
    shares = [
        Share(
            share.part,
            share.size_bytes + round(share.in_layers_bytes * (factor - 1)),
            round(share.in_layers_bytes * factor),
        )
        for share in moment.shares
    ]
    if used_bytes is not None and shares:
        index = max(range(len(shares)), key=lambda number: shares[number].size_bytes)
        off = used_bytes - sum(share.size_bytes for share in shares)
        shares[index] = replace(shares[index], size_bytes=shares[index].size_bytes + off)
    return Moment(moment.when, tuple(sorted(shares, key=lambda share: -share.size_bytes)))


def moment_of(when: str, size_bytes: Mapping[PeakPart, int], in_layers_bytes: Mapping[PeakPart, int]) -> Moment:
    """``in_layers_bytes``: of any part; only those count that every layer holds for itself."""
    ordered = sorted(size_bytes.items(), key=lambda item: -item[1])
    return Moment(
        when,
        tuple(
            Share(part, size, in_layers_bytes.get(part, 0) if part in _OF_EVERY_LAYER else 0)
            for part, size in ordered
            if size
        ),
    )


def is_given_back(part: PeakPart) -> bool:
    """Whether swap or recompute of layers can give it back."""
    return part in _GIVEN_BACK


def as_record(peak: Peak) -> dict[str, Any]:
    """The JSON form, and back: `of_record`."""
    return {
        "at": _as_record(peak.at),
        "rest": _as_record(peak.rest),
        "host_optimizer_bytes": peak.host_optimizer_bytes,
        "is_grown": peak.is_grown,
        "is_native": peak.is_native,
    }


def of_record(data: Mapping[str, Any]) -> Peak:
    """Raises LookupError, TypeError, ValueError or AttributeError for what is no record of a peak."""
    return Peak(
        _of_record(data["at"]),
        _of_record(data["rest"]),
        _natural(data["host_optimizer_bytes"]),
        is_grown=bool(data["is_grown"]),
        is_native=bool(data.get("is_native")),
    )


def _as_record(moment: Moment) -> dict[str, Any]:
    return {
        "when": moment.when,
        "used_bytes": moment.used_bytes,
        "parts": [
            {"part": share.part.value, "bytes": share.size_bytes, "in_layers_bytes": share.in_layers_bytes}
            for share in moment.shares
        ],
    }


def _of_record(data: Mapping[str, Any]) -> Moment:
    return Moment(
        _WHEN[_WHEN.index(data["when"])],
        tuple(
            Share(PeakPart(item["part"]), _natural(item["bytes"]), _natural(item["in_layers_bytes"]))
            for item in data["parts"]
        ),
    )


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"no number of bytes: {value!r}")
    return value
