"""CLUSTER: how many devices a job has, and which stage each rank is of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """How the devices of a job are shared out. ``num_devices`` = data x model x context parallel x stages.

    ``expert_parallel``: over how many of the ranks of a stage PyNative training shares out experts."""

    data_parallel: int = 1
    model_parallel: int = 1
    context_parallel: int = 1
    num_stages: int = 1
    expert_parallel: int = 1

    @property
    def num_devices(self) -> int:
        return self.data_parallel * self.model_parallel * self.context_parallel * self.num_stages

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a rank: MindSpore gives each stage consecutive ranks."""
        return rank * self.num_stages // self.num_devices

    def first_ranks(self) -> tuple[int, ...]:
        """One rank for each stage; ranks of one stage do not differ in what they hold."""
        return tuple(stage * self.num_devices // self.num_stages for stage in range(self.num_stages))
