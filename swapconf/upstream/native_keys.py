"""RELEASE -> KEYS: what `training` and `parallelism` of a PyNative YAML may hold; at any other key mindformers stops.

Source: mindformers 2.0.0 and 2.1.0, pynative/config/config.py, TrainingConfig and ParallelismConfig, whose
``allow_extra`` is off; tests/mindspore/test_native_keys.py holds it against both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from swapconf.upstream.versions import reached

FIRST, LATEST = "2.0.0", "2.1.0"  # of which they are known
_KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # section -> since -> keys
    "training": {
        FIRST: ("steps", "local_batch_size", "global_batch_size", "max_norm", "seed", "deterministic"),
        LATEST: ("use_skip_step_on_nan", "max_consecutive_skipped_steps", "rampup_batch_size"),
    },
    "parallelism": {
        FIRST: (
            "data_parallel_shard",
            "data_parallel_shard_strategy",
            "reshard_after_forward_policy",
            "cpu_offload",
            "disable_gradient_division",
            "dense_fsdp_shard_size",
            "tensor_parallel",
            "context_parallel",
            "context_parallel_method",
            "context_parallel_async",
            "ulysses_degree_in_cp",
            "context_parallel_mask_type",
            "pipeline_parallel",
            "pipeline_parallel_layers_per_stage",
            "pipeline_parallel_schedule",
            "pipeline_parallel_microbatch_size",
            "pipeline_parallel_interleave_num",
            "pipeline_parallel_overlap_p2p",
            "pipeline_parallel_overlap_b_f",
            "pipeline_parallel_enable_dxdw_split",
            "pipeline_parallel_p2p_transport",
            "sequence_parallel",
            "enable_mc2",
            "enable_loss_parallel",
            "expert_parallel",
            "npu_nums_per_device",
            "moe_token_dispatcher_type",
        ),
        LATEST: ("expert_parallel_async_d2h", "expert_parallel_use_safe_tokens"),
    },
}
SECTIONS = tuple(_KEYS)


def since(section: str) -> Mapping[str, str]:
    """By key, the release that it begins with."""
    return {key: release for release, keys in _KEYS[section].items() for key in keys}


@cache
def known(section: str, version: str) -> tuple[str, ...]:
    """The keys of a release; of a later one than is known, those of the latest."""
    return tuple(key for key, release in since(section).items() if reached(version, release))
