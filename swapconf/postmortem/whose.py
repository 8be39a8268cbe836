"""FAILURE -> WHOSE: the layer, the operator and the phase of a run that the failed allocation was for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from swapconf.memory.categories import operator_of
from swapconf.postmortem.cann_modules import APP, HCCL
from swapconf.postmortem.failure import Failure, Frame
from swapconf.postmortem.message import Memory
from swapconf.trace.phases import Phase, phase_of_name
from swapconf.upstream.scopes import in_layer
from swapconf.words.phrases import mark


class Moment(Enum):
    """When in a run. A name alone does not tell a forward operator from the same recomputed one."""

    FORWARD = mark("forward pass, or the same recomputed")
    BACKWARD = mark("backward pass")
    OPTIMIZER = mark("optimizer")
    COMPILE = mark("building the graph")
    LOADING = mark("loading weights")
    INPUT = mark("handing over inputs")
    STARTING = mark("start of the process")
    CONNECTING = mark("setting up communication")
    STEP = mark("a training step")
    UNKNOWN = mark("not told")


class Use(Enum):
    """What the memory was for."""

    TENSOR = mark("a tensor that an operator makes")
    WORKSPACE = mark("the workspace of an operator")
    WEIGHT = mark("a weight or an input")
    COMMUNICATION = mark("communication")
    POOL = mark("the growth of the pool")
    GRAPH = mark("a whole graph")
    PINNED = mark("pinned memory of the host")
    UNKNOWN = mark("not told")


@dataclass(frozen=True, kw_only=True, slots=True)
class Whose:
    """``layer``: its number, ``mtp0`` for a layer of multi-token prediction, "" outside of layers or where not told.
    ``operator``: the dotted path in the layer with the primitive, or what the log calls it."""

    layer: str
    operator: str
    moment: Moment
    use: Use


_BY_PHASE: dict[Phase | None, Moment] = {
    Phase.FORWARD: Moment.FORWARD,
    Phase.BACKWARD: Moment.BACKWARD,
    Phase.OPTIMIZER: Moment.OPTIMIZER,
}
_PARAMETER = re.compile(r"(?:^|[.:])(mtp\b[\w.]{0,80}\.)?layers\.(\d{1,6})\.")
_MOST_CHARS = 600

# actors of MindSpore's runtime, by a part of their name (2.9.0): who brings weights and inputs to the device
_ACTORS = (
    ("DataPrepareActor", Moment.LOADING, Use.WEIGHT),
    ("HostDSActor", Moment.INPUT, Use.WEIGHT),
    ("DeviceDSActor", Moment.INPUT, Use.WEIGHT),
    ("OutputActor", Moment.STEP, Use.TENSOR),
    ("Split tuple outputs", Moment.STEP, Use.TENSOR),
)

# functions in a traceback, the innermost that tells counts: (part of the file's name, of the function's) -> when
_FUNCTIONS = (
    ("", r"^_?backward$|^backward_step$|^run_backward$", Moment.BACKWARD),
    ("optim", r"^_?step$|^_init_state|^state_dict$|^_?init_group$", Moment.OPTIMIZER),
    (
        "",
        r"load_(?:pretrained|state_dict|checkpoint|param|weights|model)|from_pretrained|^set_module_tensor",
        Moment.LOADING,
    ),
    ("", r"^init_process_group$|^_?new_group$|^init_(?:hccl|group)", Moment.CONNECTING),
    ("", r"^compile$|^_?compile_|^build_graph$|^_build_", Moment.COMPILE),
    ("", r"^_?forward(?:_|$)|^forward$|^construct$", Moment.FORWARD),
    ("", r"^train_step$|^_?train(?:_|$)|^run_train", Moment.STEP),
    ("", r"^set_device$|^_lazy_init$|^__init__$", Moment.STARTING),
)
_RULES = tuple((part, re.compile(function), moment) for part, function, moment in _FUNCTIONS)

_USES = {
    "pynative-workspace": Use.WORKSPACE,
    "device": Use.POOL,
    "physical": Use.POOL,
    "static": Use.GRAPH,
    "total": Use.GRAPH,
    "feature-memory": Use.GRAPH,
    "graph-engine": Use.GRAPH,
    "memory-pool": Use.POOL,
    "hal-physical": Use.POOL,
    "driver-create": Use.POOL,
}
_COMMUNICATION = (HCCL, "HCCP", "HCCP_SCHEDULE", "ROCE")
_HCCL = re.compile(r"hccl|moedistribute|allreduce|allgather|reducescatter|alltoall", re.IGNORECASE)


def whose(failure: Failure) -> Whose:
    kernel = failure.word("kernel")[:_MOST_CHARS]
    layer, operator, moment, use = of_kernel(kernel) if kernel else ("", "", Moment.UNKNOWN, Use.UNKNOWN)
    if moment is Moment.UNKNOWN:
        moment = _of_frames(failure.frames)
    if moment is Moment.UNKNOWN and failure.is_loading:
        moment = Moment.LOADING
    if use is Use.UNKNOWN:
        use = _use(failure)
    if moment is Moment.UNKNOWN and ("memory-pool" in failure.messages or "setting-too-high" in failure.messages):
        moment = Moment.STARTING
    return Whose(layer=layer, operator=operator or failure.word("call"), moment=moment, use=use)


def is_communication(failure: Failure) -> bool:
    is_hccl = failure.word("module") in _COMMUNICATION or "hccl" in failure.messages
    return is_hccl or _HCCL.search(failure.word("call")) is not None


def of_kernel(kernel: str) -> tuple[str, str, Moment, Use]:
    """Layer, operator, moment and use, as far as the name of a kernel or an actor tells them."""
    for part, moment, use in _ACTORS:
        if part in kernel:
            return "", kernel, moment, use
    scope, _, _ = kernel.rpartition("/")
    phase = phase_of_name(kernel)
    if scope:
        found = in_layer(scope)
        layer = "" if found is None else f"mtp{found.index}" if found.is_extra else str(found.index)
        return layer, operator_of(kernel), _BY_PHASE.get(phase, Moment.UNKNOWN), Use.TENSOR
    if match := _PARAMETER.search(kernel):
        name = kernel.rpartition(":")[2]
        return ("mtp" if match[1] else "") + match[2], operator_of(name), Moment.UNKNOWN, Use.WEIGHT
    return "", kernel, Moment.UNKNOWN, Use.UNKNOWN


def _of_frames(frames: Sequence[Frame]) -> Moment:
    for frame in reversed(frames):
        for part, function, moment in _RULES:
            if part in frame.file and function.search(frame.function):
                return moment
    return Moment.UNKNOWN


def _use(failure: Failure) -> Use:
    if failure.memory is Memory.HOST:
        return Use.PINNED
    if failure.size("tensor") is not None and "static" not in failure.messages:
        return Use.TENSOR
    if is_communication(failure):
        return Use.COMMUNICATION
    if failure.word("module") == APP:
        return Use.POOL
    return next((_USES[name] for name in failure.messages if name in _USES), Use.UNKNOWN)
