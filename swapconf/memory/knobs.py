"""What a user can set against fragments, as data: what it does, and what a dry run is known to show of it.

The sources are MindSpore's documentation of ``mindspore.runtime.set_memory`` (2.9.0) and of ``MS_ALLOC_CONF`` in its
list of environment variables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """``name``: of a key in the YAML, an argument or an environment variable. ``in_dry_run``: what is known there."""

    name: str
    default: str
    effect: str
    in_dry_run: str


BLOCK_SIZE = Knob(
    name="context.mempool_block_size",
    default="2GB",
    in_dry_run="1 to 52.5 GiB measured; --confirm tries others",
    effect="the size in which MindSpore's pool grows, doubled for larger tensors; mindformers passes it to "
    "mindspore.runtime.set_memory as increase_size, with context.max_device_memory only",
)

KNOBS = (
    BLOCK_SIZE,
    Knob(
        name="init_size of mindspore.runtime.set_memory",
        default="2GB",
        in_dry_run="2 GiB measured",
        effect="the size of the pool at first, half of it persistent; only for a script of one's own, mindformers "
        "1.9.0 does not pass it",
    ),
    Knob(
        name="MS_ALLOC_CONF=enable_vmm:True",
        default="True",
        in_dry_run="not measured",
        effect="virtual memory: free granules of one piece can serve another; not with jit level O2",
    ),
    Knob(
        name="MS_ALLOC_CONF=vmm_align_size:2MB",
        default="2MB",
        in_dry_run="not measured",
        effect="the granule of virtual memory",
    ),
    Knob(
        name="MEMORY_FRAGMENTATION=1",
        default="0",
        in_dry_run="not a setting of MindSpore",
        effect="AscendSpeed's pools by lifetime, for PyTorch; here it makes `lifetime` the policy in use",
    ),
)
