"""TRACE: what one dry run of MindSpore left behind: memory blocks, executed kernels and the graph between them.

A *block* is an allocation, a *kernel* an entry of the executed order, a *task* the memory tracker's record of the same
launch, with the tensors that it reads and writes. Times are events that the tracker counts, not seconds; the event at
which a block is born is also the id of the tensor in it. A run of several training steps repeats its kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate
from statistics import mode
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swapconf.trace import fused_kernels, launch_graph
from swapconf.trace.blocks import HOST_POOL as HOST_POOL
from swapconf.trace.blocks import Block as Block
from swapconf.trace.blocks import Blocks as Blocks
from swapconf.trace.columns import FUSED
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.marked_passes import Passes
from swapconf.trace.marks import Mark
from swapconf.trace.tensor import Tensor as Tensor
from swapconf.trace.tensor import element_bits as element_bits
from swapconf.words.phrases import mark, phrase

if TYPE_CHECKING:
    from swapconf.trace.opened import Opened
    from swapconf.trace.phases import Phase

POINT_TO_POINT = frozenset({"Receive", "Send"})  # messages between two ranks
PART = "part"  # attribute of a task that is an operator in a fused kernel
_EVENT_PRIMITIVES = frozenset({"StreamSend", "StreamRecv"})
_NUMBER = re.compile(r"-op\d+$")


def without_number(name: str) -> str:
    """The name of a launch without its number, which counts what a cell launches of a primitive."""
    return _NUMBER.sub("", name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One launch, a row of execute_order.csv. ``output``, ``inputs``: names of nodes in the graph ``graph``; constants
    are told as the file tells them, ``ValueNode<StringImm> CPU``."""

    index: int
    name: str
    stream: int
    graph: str
    primitive: str
    output: str
    inputs: tuple[str, ...]
    event: str = ""
    group: str = ""

    @property
    def scope(self) -> str:
        """The cells around it: its name without the last part."""
        return self.name.rpartition("/")[0]

    @property
    def is_event(self) -> bool:
        """Orders streams, computes nothing."""
        return self.primitive in _EVENT_PRIMITIVES

    @property
    def copies_to_host(self) -> bool:
        return self.primitive == "MoveTo" and "ValueNode<StringImm> CPU" in self.inputs


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One record of tracker_graph.ir. ``inputs``, ``outputs``: ids of tensors (a view writes the id that it reads)."""

    event: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[tuple[str, str], ...]
    input_tensors: tuple[Tensor, ...]
    output_tensors: tuple[Tensor, ...]

    @property
    def scope(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def is_kernel(self) -> bool:
        """A launch of the executed graph; the others prepare data, wait for events or run outside of it."""
        return self.name.rpartition("-op")[2].isdecimal() and "-op" in self.name

    @property
    def primitive(self) -> str:
        """``MatMul`` of ``.../MatMul-op3``."""
        return self.name.rpartition("/")[2].partition("-op")[0]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One rank of one dry run. ``tasks`` is empty where there is no graph, see `why_no_graph`. ``marks``: of a run in
    PyNative mode, whose tasks have no cells and whose kernels stand in no order of execution; its child tells what the
    last step moved to the host: ``moved``, (layer, bytes) of each tensor, and the most bytes there at once.
    ``launch_graph_file``: where the graph that decided the order of the kernels is kept, "" where it is not;
    ``fused_kernels_file``: the same of what is inside fused kernels; ``known_inside``: what of that is known already,
    None where the file is to be asked. ``closed``: the trace with fused kernels whose operators are the kernels of this
    one."""

    folder: str
    rank: int
    blocks: Blocks
    kernels: tuple[Kernel, ...]
    tasks: tuple[Task, ...]
    marks: tuple[Mark, ...] = ()
    moved: tuple[tuple[int, int], ...] = ()
    moved_host_bytes: int = 0
    launch_graph_file: str = ""
    fused_kernels_file: str = ""
    known_inside: Mapping[str, FusedKernel] | None = field(default=None, repr=False, compare=False)
    closed: Trace | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.blocks, Blocks):  # what is made by hand is written as rows
            object.__setattr__(self, "blocks", Blocks.of(self.blocks))

    @cached_property
    def step(self) -> tuple[Kernel, ...]:
        """The kernels of one training step: what is launched for the first time."""
        kernels = self.kernels
        return tuple(kernels[index] for index in self._first_launches)

    @cached_property
    def _first_launches(self) -> list[int]:
        first: dict[tuple[str, str], int] = {}
        for index, kernel in enumerate(self.kernels):
            first.setdefault((kernel.graph, kernel.name), index)
        return list(first.values())

    @cached_property
    def step_launches(self) -> list[int]:
        """The kernels of `step` that are no events, as they are counted among all kernels that are none."""
        is_kernel = [kernel.primitive not in _EVENT_PRIMITIVES for kernel in self.kernels]
        number = list(accumulate(is_kernel))
        return [number[index] - 1 for index in self._first_launches if is_kernel[index]]

    @cached_property
    def step_tasks(self) -> tuple[Task, ...]:
        """The tracker's record of each kernel of `step` that is no event, in the same order; none without a graph."""
        tasks = [task for task in self.tasks if task.is_kernel]
        return tuple(tasks[number] for number in self.step_launches) if tasks else ()

    @cached_property
    def has_graph(self) -> bool:
        """Each kernel has a record of the tracker: not so with memory_optimize_level O1, nor in a file cut off."""
        kernels = sum(kernel.primitive not in _EVENT_PRIMITIVES for kernel in self.kernels)
        return not self.marks and bool(self.tasks) and kernels == sum(task.is_kernel for task in self.tasks)

    @cached_property
    def is_fused(self) -> bool:
        """Whether some kernels are of several operators (``jit_level: O1``)."""
        return any(FUSED in kernel.name for kernel in self.kernels)

    @cached_property
    def launch_graph(self) -> LaunchGraph | None:
        """The graph among whose nodes MindSpore decided the order of the kernels; None where it was not kept. Raises
        SwapconfError where its file is damaged."""
        if self.closed is not None:
            return self.closed.opened.launch_graph
        return launch_graph.read(self.launch_graph_file) if self.launch_graph_file else None

    @cached_property
    def fused_kernels(self) -> Mapping[str, FusedKernel]:
        """What is inside fused kernels, by their names; nothing where it was not kept. Raises SwapconfError where the
        file is damaged."""
        if self.known_inside is not None:
            return self.known_inside
        return fused_kernels.read(self.fused_kernels_file) if self.fused_kernels_file else {}

    @cached_property
    def opened(self) -> Opened:
        """The same with the operators inside fused kernels."""
        from swapconf.trace.opened import opened  # which makes traces

        return opened(self)

    @cached_property
    def step_phases(self) -> tuple[Phase, ...]:
        """See `phases.of_step`, which every reader of a trace asks."""
        from swapconf.trace.phases import of_step  # which reads traces

        return of_step(self)

    @cached_property
    def passes(self) -> Passes:
        """Of a run in PyNative mode: what runs when."""
        return Passes(self.marks)

    @cached_property
    def num_steps(self) -> int:
        """How often most kernels ran; some run more than once in a step."""
        launches = Counter((kernel.graph, kernel.name) for kernel in self.kernels)
        return mode(launches.values()) if launches else 0

    @property
    def used_peak_bytes(self) -> int:
        """The most device memory in use at once, which MindSpore prints as the peak without fragments."""
        return self.blocks.peak_bytes(on_host=False)

    @property
    def with_fragments_peak_bytes(self) -> int:
        """The most that the device pool took, as MindSpore itself recorded it."""
        return int(self.blocks.pool_peak_bytes[~self.blocks.on_host].max(initial=0))

    @property
    def is_planned(self) -> bool:
        """MindSpore laid out the memory of the graph before running it (memory_optimize_level O1)."""
        return "Somas" in self.blocks.kinds

    @property
    def why_no_graph(self) -> str:
        """Of a trace without a graph: what is known of the reason."""
        if self.marks:
            return phrase("this is the trace of a PyNative run, which has no graph")
        return (
            phrase(
                "the trace has no graph: MindSpore planned the memory ahead (memory_optimize_level O1) and then "
                "writes none"
            )
            if self.is_planned
            else phrase(
                "the trace has no graph: tracker_graph.ir is missing, and was lost or not copied; MindSpore writes "
                "none with memory_optimize_level O1, but this memory was not planned as O1 plans it"
            )
        )

    @property
    def host_peak_bytes(self) -> int:
        """The most pinned host memory in use at once."""
        return self.blocks.peak_bytes(on_host=True)

    @property
    def lasting_host_bytes(self) -> int:
        """Optimizer state on the host (`optimizer.swap`). The tracker names no host block; those of the optimizer are
        never released, what layers copied out always is, when it is back (measured with MindSpore 2.9.0)."""
        return int(self.blocks.size_bytes[self.blocks.on_host & (self.blocks.end == NEVER)].sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskTable:
    """The tasks of a trace by the graph that launched them, as columns of equal length n, in order of ``event``.

    ``event``: int64 [n], ascending. ``actor``, ``node``, ``graph``: int32 [n], index into the tuple of names in the
    plural. ``actor`` is who launched it: a kernel by its index and name, or another actor of MindSpore's runtime;
    ``graph`` is ``kernel_graph0`` or "" outside of any graph.
    """

    event: NDArray[np.int64]
    actor: NDArray[np.int32]
    actors: tuple[str, ...]
    node: NDArray[np.int32]
    nodes: tuple[str, ...]
    graph: NDArray[np.int32]
    graphs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.event)


class Notice(Enum):
    """A warning of MindSpore that bears on swap, recompute or memory."""

    OUTSIDE_LAZY_INLINE = "a swap has no effect outside a lazily inlined cell"
    RECOMPUTE_WINS = "an operator is both recomputed and swapped; it is recomputed"
    POOL_BLOCK_CUT = mark("the memory pool's block is larger than the memory, and is cut")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLog:
    """What the log of one worker tells (None or "": it does not).

    The peaks are whole MiB, rounded down.

    Attributes:
        device_bytes: Memory of the device.
        usable_bytes: What MindSpore takes of it.
        strategy: The lines that say what is set or skipped at a layer.
        notices: How often each warning stands there.
        error: The last line of the last Python traceback; only the exit code tells whether the process died of it.
    """

    device_bytes: int | None = None
    usable_bytes: int | None = None
    base_address: int | None = None
    used_peak_bytes: int | None = None
    with_fragments_peak_bytes: int | None = None
    strategy: tuple[str, ...] = ()
    notices: Mapping[Notice, int] = field(default_factory=dict)
    error: str = ""
