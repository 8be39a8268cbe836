"""DIAGNOSIS -> REMEDIES: what to do about exactly this failure, what helps most first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swapconf.postmortem.cause import Cause, Diagnosis
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.message import Framework
from swapconf.postmortem.whose import Moment, Use, Whose
from swapconf.words.phrases import phrase
from swapconf.words.units import GIB, show_bytes

_WEIGHTS = phrase(
    "weights alone fill the card: share them out, with more tensor, pipeline or expert parallelism or optimizer "
    "sharding; swap and recompute of activations do not help here"
)
_LESS_MEMORY = phrase("swap or recompute more activations: `swapconf plan` finds the fastest way that fits")
_LESS_MEMORY_OF_TORCH = phrase(
    "recompute activations (activation checkpointing), shard more (tensor, pipeline, context parallelism,"
    " FSDP), or use a smaller micro-batch"
)
BEFORE_STEPS = frozenset({Moment.LOADING, Moment.STARTING})
LARGE_SHARE = 0.2  # of a card, for one allocation
BESIDE_BYTES = 6 * GIB  # what MindSpore leaves of 64 GiB where no limit is set: 65536M of the device, 59392M for it


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """All that is known of one failure. ``set_memory``: max_device_memory of the YAML at hand, "" for none."""

    failure: Failure
    whose: Whose
    diagnosis: Diagnosis
    set_memory: str = ""

    @property
    def is_torch(self) -> bool:
        return self.failure.framework is Framework.TORCH_NPU

    @property
    def is_before_steps(self) -> bool:
        """No activation was there yet that could be swapped or recomputed."""
        return self.whose.moment in BEFORE_STEPS

    @property
    def is_mindspore(self) -> bool:
        """Else torch_npu, or CANN alone, which both use."""
        return self.failure.framework is Framework.MINDSPORE


def remedies(case: Case) -> tuple[str, ...]:
    return (*_OF[case.diagnosis.cause](case), *_always(case))


def _host(case: Case) -> Iterator[str]:
    yield phrase(
        "look at what the host has free (`free -g`), and at its limit of locked memory (`ulimit -l`); in a "
        "container, at that of the container"
    )
    if case.is_torch:
        yield phrase("turn pin_memory off, or load data with fewer workers")
    else:
        yield phrase(
            "swap moves less with fewer entries of swap_config; `swapconf plan train.yaml --host-budget 200GB` "
            "keeps to "
            "what a host may pin, for all its cards together"
        )


def _unreal(case: Case) -> Iterator[str]:
    yield phrase(
        "it is no question of memory, and neither swap nor recompute helps: a shape, a length or an index that is "
        "negative or broken became a size"
    )
    yield from launch_blocking(None if case.failure.framework is Framework.CANN else case.failure.framework)
    yield phrase(
        "follow that operator's shape back to where it comes from: lengths, counts and indices that an operator before "
        "it computed, custom operators first, and integers that were never written"
    )
    if not case.failure.unreal_size:
        yield phrase(
            "if the shape is what you meant, no card holds it: use an operator that does not build the whole tensor "
            "(flash attention instead of a matrix of scores)"
        )


def launch_blocking(framework: Framework | None) -> Iterator[str]:
    """How to see which operator it was. ``framework``: None where it is not known."""
    if framework is not Framework.TORCH_NPU:
        yield phrase(
            "run again with mindspore.runtime.launch_blocking() in the script (MindSpore): operators then run one by "
            "one, and the one that is named is the one that failed"
        )
    if framework is not Framework.MINDSPORE:
        yield phrase(
            "run again with ASCEND_LAUNCH_BLOCKING=1 (torch_npu): operators then run one by one, and the one that is "
            "named is the one that failed"
        )


def _too_large(case: Case) -> Iterator[str]:
    yield phrase(
        "no swap and no recompute helps: one allocation of {asked} does not fit an empty {most}; make the "
        "tensor itself smaller",
        asked=show_bytes(case.diagnosis.asked_bytes),
        most=show_bytes(case.diagnosis.limit_bytes or case.diagnosis.device_bytes),
    )
    yield phrase(
        "use a smaller batch_size or seq_length, more tensor or context parallelism, or an operator that does"
        " not build the whole tensor (flash attention instead of a matrix of scores)"
    )


def _fragments(case: Case) -> Iterator[str]:
    pieces = show_bytes(case.diagnosis.fragments_bytes)
    if case.is_torch:
        yield phrase(
            "set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, which joins the {pieces} in pieces; it does not"
            " go together with max_split_size_mb",
            pieces=pieces,
        )
        return
    yield phrase(
        "keep virtual memory on, MS_ALLOC_CONF=enable_vmm:True (the default of MindSpore 2.3 and later; not "
        "with jit level O2), which joins the {pieces} in pieces",
        pieces=pieces,
    )
    yield phrase("try another context.mempool_block_size; `swapconf fragmentation` finds the best one from a dry run")


def _others(case: Case) -> Iterator[str]:
    yield phrase("see who holds the card: `npu-smi info`, and `ps -ef | grep python` for a run that was not ended")
    if not case.is_mindspore:
        yield phrase("check that each rank has a card of its own (ASCEND_RT_VISIBLE_DEVICES, local_rank)")
    else:
        yield phrase(
            "if the card belongs to this run alone, lower context.max_device_memory so far that HCCL and the runtime "
            "fit beside the pool"
        )


def _setting(case: Case) -> Iterator[str]:
    found = case.diagnosis
    assert found.limit_bytes is not None
    assert found.device_bytes is not None
    most = (found.device_bytes - BESIDE_BYTES * found.device_bytes // (64 * GIB)) // GIB
    yield phrase(
        "raise context.max_device_memory: the pool may take {limit} of a card of {card}, and {short} more would have "
        "sufficed; up to {most}GB leaves to HCCL and the runtime what MindSpore leaves by itself",
        limit=show_bytes(found.limit_bytes),
        card=show_bytes(found.device_bytes),
        short=show_bytes(found.short_bytes),
        most=most,
    )


def _setting_too_high(case: Case) -> Iterator[str]:
    yield phrase(
        "lower context.max_device_memory below {free}, what the card has free, or end what holds the rest "
        "(`npu-smi info`)",
        free=show_bytes(case.diagnosis.device_free_bytes),
    )


def _full(case: Case) -> Iterator[str]:
    if case.is_before_steps:
        yield _WEIGHTS
    elif case.is_torch:
        yield _LESS_MEMORY_OF_TORCH
    else:
        yield _LESS_MEMORY
        yield phrase("where no plan fits: a smaller micro-batch, or more tensor, pipeline or context parallelism")
    pieces, asked = case.diagnosis.fragments_bytes, case.diagnosis.asked_bytes
    if case.is_torch and pieces and asked and pieces >= asked:
        yield phrase(
            "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True joins {pieces} in pieces, enough for this one, "
            "little for the next",
            pieces=show_bytes(pieces),
        )


def _communication(case: Case) -> Iterator[str]:
    yield phrase(
        "a communicator takes 2 x HCCL_BUFFSIZE (200 MB by default) beside the pool: lower HCCL_BUFFSIZE, or "
        "use fewer groups"
    )
    yield from _leave_room(case)


def _card(case: Case) -> Iterator[str]:
    yield phrase("see what else holds the card: `npu-smi info`")
    yield phrase(
        "CANN does not tell what the framework's pool did next, as it may free pieces and ask again: give the log of "
        "the framework (worker_N.log of msrun) to `swapconf oom`, too"
    )
    if case.is_before_steps:
        yield _WEIGHTS
        return
    if not case.is_torch:
        yield _LESS_MEMORY
    if not case.is_mindspore:
        yield _LESS_MEMORY_OF_TORCH


def _beside(case: Case) -> Iterator[str]:
    yield from _leave_room(case)
    yield phrase("see what else holds the card: `npu-smi info`")
    if not case.is_mindspore and not case.is_before_steps:
        yield _LESS_MEMORY_OF_TORCH


def _leave_room(case: Case) -> Iterator[str]:
    if not case.is_torch:
        yield phrase(
            "under MindSpore, lower context.max_device_memory by 1 or 2 GB: what the pool may not take is left to "
            "HCCL, CANN and the runtime"
        )
    if not case.is_mindspore:
        yield phrase(
            "under PyTorch, leave room beside its pool: torch_npu.npu.set_per_process_memory_fraction, or a lower "
            "gpu_memory_utilization of vLLM"
        )


def _untold(case: Case) -> Iterator[str]:
    if case.is_torch:
        yield from launch_blocking(Framework.TORCH_NPU)
    else:
        yield phrase("run again with GLOG_v=1 and MS_MEMORY_STATISTIC=1: then MindSpore tells what its pool holds")


def _always(case: Case) -> Iterator[str]:
    found = case.diagnosis
    asked, whole = found.asked_bytes, found.device_bytes or found.limit_bytes
    if found.cause in (Cause.FRAGMENTS, Cause.FULL) and asked and whole and asked >= LARGE_SHARE * whole:
        yield phrase(
            "look at the tensor itself: {asked} at once is {share:.0%} of {whole}",
            asked=show_bytes(asked),
            share=asked / whole,
            whole=show_bytes(whole),
        )
    if case.is_before_steps and found.cause in _SILENT_OF_STEPS:
        yield phrase("no step had begun: swap and recompute of activations do not help here")
    if case.whose.use is Use.WORKSPACE:
        yield phrase("it was the workspace of an operator: `swapconf dryrun --level 2` tells what each operator needs")
    if case.set_memory:
        yield phrase("the YAML sets context.max_device_memory to {size}", size=case.set_memory)


_SILENT_OF_STEPS = frozenset({Cause.FRAGMENTS, Cause.TOO_LARGE, Cause.SETTING, Cause.UNTOLD, Cause.BESIDE})
_OF = {
    Cause.UNREAL: _unreal,
    Cause.HOST: _host,
    Cause.TOO_LARGE: _too_large,
    Cause.FRAGMENTS: _fragments,
    Cause.OTHERS: _others,
    Cause.SETTING: _setting,
    Cause.SETTING_TOO_HIGH: _setting_too_high,
    Cause.FULL: _full,
    Cause.COMMUNICATION: _communication,
    Cause.CARD: _card,
    Cause.BESIDE: _beside,
    Cause.UNTOLD: _untold,
}
