"""WORKSPACE: what the kernels of a rank need on the device while they run, and how that is known.

Workspace is no tensor: a kernel gets it with its outputs and gives it back when it has run. MindSpore asks CANN for its
size, so that a dry run without CANN has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

KIND = "WorkSpace"  # as the memory tracker calls such a block


class Basis(Enum):
    """``trace``: MindSpore recorded it; ``public``: a formula of CANN's published sources, with the largest blocks that
    they take where those depend on the card; ``assumed``: nothing public was found, a cautious rule stands in;
    ``unknown``: several kernels in one that no rule is known for, so that what stands in is the least."""

    TRACE = "trace"
    PUBLIC = "public"
    ASSUMED = "assumed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """How the size for some operators follows from their tensors. ``source``: where the formula stands."""

    name: str
    operators: str
    formula: str
    basis: Basis
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Workspace:
    """The workspace of each launch that needs any, as columns of equal length n, in order of launch.

    Attributes:
        event: Int64 [n], of the task that it belongs to.
        size_bytes: Int64 [n], as asked for.
        rule: Uint8 [n], index into ``rules``.
        unknown: Primitives of launches that need an amount that is not known; what counts for them is the least.
    """

    event: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    rule: NDArray[np.uint8]
    rules: tuple[Rule, ...]
    unknown: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.event)

    @property
    def largest(self) -> int:
        """The row of the first of the largest. Raises ValueError where there is none."""
        return int(self.size_bytes.argmax())
