"""NAMES of modules -> what is in them: all that mindformers 2.0.0 and 2.1.0 import from hyper_parallel. [mindspore]

Of ``hyper_parallel.custom_ops`` only the operators are there that 2.1.0 cannot be imported without; it does without the
others, where they are not installed, as 2.0.0 does without all.
"""

from __future__ import annotations

from typing import Any

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn, absent
from swapconf.dryrun.pynative.hyper_parallel_stand_in.backward import enable_mindspore_backward_compat
from swapconf.dryrun.pynative.hyper_parallel_stand_in.context_parallel import ContextParallel
from swapconf.dryrun.pynative.hyper_parallel_stand_in.dtensor import (
    DTensor,
    ShardingPlan,
    SkipDTensorDispatch,
    distribute_tensor,
    shard_module,
)
from swapconf.dryrun.pynative.hyper_parallel_stand_in.fully_shard import (
    CPUOffloadPolicy,
    HSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from swapconf.dryrun.pynative.hyper_parallel_stand_in.layout import DevMat, RedistributionOperatorInfer, slice_of_rank
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh, group_of, init_device_mesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.moving import SwapManager
from swapconf.dryrun.pynative.hyper_parallel_stand_in.pipeline import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Partial, Placement, Replicate, Shard
from swapconf.dryrun.pynative.hyper_parallel_stand_in.wrappers import CheckpointPolicy, checkpoint_wrapper, swap_wrapper

_ABSENT = {
    "": ("DFunction",),
    "core": (),
    "core.activation_checkpoint": ("checkpoint_exclude_wrapper",),
    "core.context_parallel": (),
    "core.context_parallel.async_context_parallel": ("AsyncContextParallel",),
    "core.context_parallel.async_dsa_context_parallel": (
        "AsyncDSAIndexerContextParallel",
        "AsyncDSAIndexerLossContextParallel",
        "AsyncDSASparseAttentionContextParallel",
    ),
    "core.context_parallel.dsa_context_parallel": (
        "DSAIndexerContextParallel",
        "DSAIndexerLossContextParallel",
        "DSASequenceReplicateCache",
        "DSASparseAttentionContextParallel",
    ),
    "core.distributed_checkpoint": ("get_current_layout", "get_global_layout"),
    "core.fully_shard": (),
    "core.pipeline_parallel": (),
    "core.pipeline_parallel.comm_compute_overlap": ("CommComputeOverlap",),
    "core.pipeline_parallel.hook_coordinator": ("HookCoordinator", "HookRole"),
    "core.pipeline_parallel.scheduler": ("MetaStepType",),
    "core.shard": (),
    "custom_ops": (),
    "custom_ops.experimental": (
        "npu_dense_lightning_indexer_grad_kl_loss",
        "npu_dense_lightning_indexer_softmax_lse",
        "npu_sparse_lightning_indexer_grad_kl_loss",
    ),
    "platform.mindspore": (),
    "platform.mindspore.pipeline_parallel": (),
    "platform.mindspore.pipeline_parallel._utils": ("_MicroBatch",),
}


class _Platform:
    """mindformers asks for it when it is imported, and uses it in parallel runs only."""

    @staticmethod
    def differentiable_all_reduce(tensor: Any, kind: str, group: str) -> Any:
        """Another tensor, whose gradient is summed in the same way."""
        from mindspore.ops.communication import all_reduce

        return all_reduce(tensor, kind, group)[0]

    @staticmethod
    def create_group(ranks: list[int]) -> str:
        return group_of(tuple(ranks))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInStandIn(f"swapconf's stand-in for hyper_parallel has no {name} of the platform")


_DONE: dict[str, dict[str, Any]] = {
    "": {
        "DTensor": DTensor,
        "DeviceMesh": DeviceMesh,
        "PipelineStage": PipelineStage,
        "SkipDTensorDispatch": SkipDTensorDispatch,
        "init_device_mesh": init_device_mesh,
        "shard_module": shard_module,
    },
    "core.activation_checkpoint": {
        "CheckpointPolicy": CheckpointPolicy,
        "SwapManager": SwapManager,
        "checkpoint_wrapper": checkpoint_wrapper,
        "swap_wrapper": swap_wrapper,
    },
    "core.context_parallel.context_parallel": {"ContextParallel": ContextParallel},
    "core.dtensor": {"DTensor": DTensor, "distribute_tensor": distribute_tensor},
    "core.dtensor.dtensor": {"DTensor": DTensor, "distribute_tensor": distribute_tensor},
    "core.dtensor.placement_types": {
        "Partial": Partial,
        "Placement": Placement,
        "Replicate": Replicate,
        "Shard": Shard,
    },
    "core.dtensor.layout": {"_infer_slice_area_by_rank": slice_of_rank},
    "core.dtensor.redistribute_infer": {"DevMat": DevMat, "RedistributionOperatorInfer": RedistributionOperatorInfer},
    "core.fully_shard.api": {
        "HSDPModule": HSDPModule,
        "MixedPrecisionPolicy": MixedPrecisionPolicy,
        "fully_shard": fully_shard,
    },
    "core.fully_shard.utils": {"CPUOffloadPolicy": CPUOffloadPolicy, "OffloadPolicy": OffloadPolicy},
    "core.pipeline_parallel": {
        "Schedule1F1B": Schedule1F1B,
        "ScheduleGPipe": ScheduleGPipe,
        "ScheduleInterleaved1F1B": ScheduleInterleaved1F1B,
    },
    "core.shard.sharding_plan": {"ShardingPlan": ShardingPlan},
    "platform": {"get_platform": _Platform},
    "platform.mindspore.autograd_compat": {"enable_mindspore_backward_compat": enable_mindspore_backward_compat},
}


def modules() -> dict[str, dict[str, Any]]:
    """By module, in the order in which they can be made: what is done, and classes for all that is not."""
    classes = {name: absent(name) for names in _ABSENT.values() for name in names}
    found: dict[str, dict[str, Any]] = {name: {one: classes[one] for one in names} for name, names in _ABSENT.items()}
    for name, contents in _DONE.items():
        found.setdefault(name, {}).update(contents)
    return {f"hyper_parallel.{name}".rstrip("."): found[name] for name in sorted(found)}
