"""What a user can set against fragments, as data: where, what it does, and whether a dry run shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """``change``: how to set it, with ``{}`` for the value. ``shows_in_dry_run``: the simulated device takes part."""

    name: str
    change: str
    default: str
    effect: str
    shows_in_dry_run: bool


BLOCK_SIZE = Knob(
    name="context.mempool_block_size", change="context.mempool_block_size={}GB", default="2GB",
    effect="the size in which MindSpore's pool grows; mindformers passes it to mindspore.runtime.set_memory as "
           "increase_size, with context.max_device_memory only", shows_in_dry_run=True)

# MindSpore 2.9.0: the documentation of set_memory and of MS_ALLOC_CONF in the list of environment variables
KNOBS = (
    BLOCK_SIZE,
    Knob(name="mindspore.runtime.set_memory(init_size=...)", change="init_size={}GB", default="2GB",
         effect="the size of the pool at first; only for a script of one's own, mindformers 1.9.0 does not pass it",
         shows_in_dry_run=True),
    Knob(name="MS_ALLOC_CONF=enable_vmm", change="MS_ALLOC_CONF=enable_vmm:{}", default="True",
         effect="virtual memory: free granules of one piece are mapped elsewhere when an allocation fails; not with "
                "jit level O2", shows_in_dry_run=False),
    Knob(name="MS_ALLOC_CONF=vmm_align_size", change="MS_ALLOC_CONF=enable_vmm:True,vmm_align_size:{}MB", default="2MB",
         effect="the granule of virtual memory; larger ones are mapped faster and leave more unused",
         shows_in_dry_run=False),
    Knob(name="MEMORY_FRAGMENTATION", change="MEMORY_FRAGMENTATION={}", default="0",
         effect="AscendSpeed's pools by lifetime, for PyTorch; the policy `lifetime` here", shows_in_dry_run=False),
)
