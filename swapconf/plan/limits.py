"""BUDGET -> LIMITS: what a plan may hold on each rank and each host.

What a card holds is MindSpore's pool with its fragments, the workspace of the kernel that runs, and what is beside the
pool: the driver, the communication buffers. Ranks of a host share its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swapconf.memory.cluster_view import hosts


@dataclass(frozen=True, kw_only=True, slots=True)
class Cards:
    """The job as far as hosts are concerned."""

    num_devices: int
    num_stages: int
    per_host: int

    def host_bytes(self, of_stage: Mapping[int, int]) -> int:
        """Of the host that holds most, all its ranks together. ``of_stage``: of one rank."""
        rows = hosts(self.num_devices, self.num_stages, self.per_host, of_stage)
        return max((row.host_bytes or 0 for row in rows), default=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a user gives.

    Attributes:
        beside_bytes: What a card holds beside the pool; it is a part of ``card_bytes``.
        host_bytes: What a host may pin; None for no limit.
    """

    card_bytes: int
    beside_bytes: int = 0
    host_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What may be held.

    Attributes:
        budget_bytes: Of a card.
        workspace_bytes: By rank, what the kernel that runs takes beside its tensors.
        beside_bytes: Of a card, what is not in the pool, as told.
        room_bytes: What a card has left for pool and workspace, whatever the budget; None where that is not looked at.
        learned_bytes: By rank, by how much true runs needed more than was predicted.
        host_budget_bytes: Of a host; None for no limit.
    """

    budget_bytes: int
    workspace_bytes: tuple[int, ...]
    beside_bytes: int = 0
    room_bytes: int | None = None
    learned_bytes: tuple[int, ...] = ()
    host_budget_bytes: int | None = None

    @property
    def pool_bytes(self) -> tuple[int, ...]:
        """By rank, what its pool may take with fragments."""
        return tuple(self.usable_bytes - self.beside_bytes - more for more in self._more_bytes)

    @property
    def usable_bytes(self) -> int:
        """The part of the budget that can be used."""
        return self.budget_bytes if self.room_bytes is None else min(self.budget_bytes, self.room_bytes)

    def over_bytes(self, pool_bytes: Sequence[float]) -> float:
        """By how much the ranks are over together; 0 where all fit."""
        return sum(max(0.0, size - most) for size, most in zip(pool_bytes, self.pool_bytes, strict=True))

    def needed_bytes(self, pool_bytes: Sequence[int]) -> int:
        """The least budget of a card in which pools of these sizes fit, one of each rank."""
        return self.beside_bytes + max(size + more for size, more in zip(pool_bytes, self._more_bytes, strict=True))

    @property
    def _more_bytes(self) -> tuple[int, ...]:
        """By rank, what is needed with what its pool takes."""
        learned = self.learned_bytes or (0,) * len(self.workspace_bytes)
        return tuple(map(sum, zip(self.workspace_bytes, learned, strict=True)))
