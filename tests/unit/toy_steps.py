"""A toy model that is run by a toy of MindSpore's runtime: its trace for any number of layers, to the last event.

Each layer has a weight that is copied (``TensorMove``) before the first layer, a product, a sum over cards on a stream
of its own, and a norm; its activations live until its gradient, which comes in opposite order and is named after the
last layer. The norms of all gradients are added up in one launch; then each weight is updated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.trace import Kernel, Task, Tensor, Trace

NET = "Default/network-Model"
RECEIVED = "received"
SIZES = {"BFloat16": 2, "Float32": 4}
# name, stream, event, names of what it reads, names and shapes of what it makes
Launch: TypeAlias = "tuple[str, int, str, list[str], list[tuple[str, Tensor]]]"


@dataclass
class Runtime:
    """Counts events, gives ids, and releases each tensor behind its last reader."""

    steps: int
    plan: list[Launch] = field(default_factory=list)

    def launch(
        self,
        name: str,
        inputs: Sequence[str] = (),
        output: str = "",
        shape: tuple[int, ...] = (8, 8),
        stream: int = 0,
        event: str = "",
    ) -> str:
        made = [(output, Tensor("BFloat16", shape))] if output else []
        self.plan.append((name, stream, event, list(inputs), made))
        return output


@cache
def toy(
    num_layers: int,
    micro_batches: int = 2,
    steps: int = 2,
    first: int = 0,
    uneven: bool = False,
    receives: bool = False,
    branch: str = "",
    longer: int | None = None,
) -> Trace:
    """Layers ``first`` to ``first + num_layers - 1``. ``uneven``: the backward pass of the last one does one thing
    more in its middle. ``receives``: the step begins with a message, whose tensor is born before all that it waits
    for. ``branch``: before which launch of the last layer an embedding is launched that does not depend on it.
    ``longer``: from which layer on, counted from the first, the forward pass does one thing more."""
    runtime = Runtime(steps=steps)
    if receives:
        runtime.launch("Default/StreamSend", event="first", stream=0)
        runtime.launch("Default/StreamRecv", event="first", stream=1)
        runtime.launch("Default/Receive", [], RECEIVED, (8, 8), stream=1)
    layers = range(first, first + num_layers)
    for layer in sorted(layers, key=lambda number: (number - first) * 7 % 5):  # MindSpore has no order for these
        runtime.launch("Default/TensorMove", [f"model.layers.{layer}.w"], f"copy.{layer}", (8, 3))
    for batch in range(micro_batches):
        more = layers[longer:] if longer is not None else range(0)
        _forward(runtime, layers, batch, branch, more)
        _backward(runtime, layers, batch, uneven, more)
    if receives:
        runtime.launch(f"{NET}/loss-Loss/Sum", [RECEIVED], "sum", (1,))
    _optimizer(runtime, layers)
    return _trace(runtime, layers)


def _cell(layer: int, cell: str) -> str:
    return f"{NET}/model-Toy/layers-CellList/{layer}-Layer/{cell}-Cell"


def _forward(runtime: Runtime, layers: range, batch: int, branch: str, longer: range) -> None:
    seen = runtime.launch(f"{NET}/model-Toy/embed-Embedding/Gather", ["model.embed"], f"h.{batch}")
    table = runtime.launch(f"{NET}/model-Toy/rotary-Rotary/Cos", ["model.table"], f"cos.{batch}", (4,))
    ends: list[str] = []
    for layer in layers:
        _embed_again(runtime, ends, batch, is_here=branch == "norm" and layer == layers[-1])
        norm = runtime.launch(f"{_cell(layer, 'norm')}/RmsNorm", [seen, f"copy.{layer}"], f"n.{layer}.{batch}")
        made = runtime.launch(
            f"{_cell(layer, 'mlp')}/MatMul",
            [norm, table, f"c.{layer % 2}"],
            f"m.{layer}.{batch}",
            (8, 8 + 2 * (layer % 2)),
        )
        if layer in longer:
            runtime.launch(f"{_cell(layer, 'mlp')}/Gelu", [made], f"l.{layer}.{batch}", (8, 16))
        runtime.launch("Default/StreamSend", event=f"s{layer}.{batch}", stream=0)
        runtime.launch("Default/StreamRecv", event=f"s{layer}.{batch}", stream=1)
        summed = runtime.launch(f"{_cell(layer, 'mlp')}/AllReduce", [made], f"r.{layer}.{batch}", stream=1)
        runtime.launch("Default/StreamSend", event=f"t{layer}.{batch}", stream=1)
        runtime.launch("Default/StreamRecv", event=f"t{layer}.{batch}", stream=0)
        _embed_again(runtime, ends, batch, is_here=branch == "add" and layer == layers[-1])
        seen = runtime.launch(f"{_cell(layer, 'add')}/Add", [seen, summed], f"x.{layer}.{batch}")
    runtime.launch(f"{NET}/loss-Loss/Log", [seen, *ends], f"loss.{batch}", (5, 5))


def _embed_again(runtime: Runtime, ends: list[str], batch: int, is_here: bool) -> None:
    if is_here:
        ends.append(runtime.launch(f"{NET}/mtp-Extra/Gather", ["model.table"], f"e.{batch}", (3, 3)))


def _backward(runtime: Runtime, layers: range, batch: int, uneven: bool, longer: range) -> None:
    seen = runtime.launch(f"Gradients/{NET}/loss-Loss/Grad_Log/LogGrad", [f"loss.{batch}"], f"dl.{batch}")
    for layer in reversed(layers):
        cell = f"Gradients/{_cell(layers[-1], 'mlp')}/Grad_MatMul/MatMul"
        for turn in range(8):
            seen = runtime.launch(
                f"Gradients/{_cell(layer, 'mlp')}/Grad_Mul/Mul", [seen], f"g{turn}.{layer}.{batch}", (8, 4 + turn)
            )
        if layer in longer:
            seen = runtime.launch(
                f"Gradients/{_cell(layer, 'mlp')}/Grad_Gelu/GeluGrad",
                [seen, f"l.{layer}.{batch}"],
                f"gl.{layer}.{batch}",
            )
        if uneven and layer == layers[-1]:
            runtime.launch(f"Gradients/{NET}/loss-Loss/Grad_Log/Assign", [seen, "model.table"])
        weight = runtime.launch(cell, [seen, f"n.{layer}.{batch}", f"m.{layer}.{batch}"], f"dw.{layer}.{batch}", (8, 3))
        runtime.launch(f"Gradients/{_cell(layer, 'mlp')}/AssignAdd", [weight, f"accu_grads.model.layers.{layer}.w"])
        seen = runtime.launch(
            f"Gradients/{_cell(layer, 'norm')}/Grad_RmsNorm/RmsNormGrad",
            [seen, f"x.{layer}.{batch}", f"copy.{layer}"],
            f"dx.{layer}.{batch}",
        )
    runtime.launch(f"Gradients/{NET}/model-Toy/embed-Embedding/Grad/ScatterAdd", [seen, "model.embed"])


def _optimizer(runtime: Runtime, layers: range) -> None:
    norms = [
        runtime.launch(f"{NET}/clip_grad_norm-Clip/Square", [f"accu_grads.model.layers.{layer}.w"], f"q.{layer}", (2,))
        for layer in layers
    ]
    scale = runtime.launch(f"{NET}/clip_grad_norm-Clip/AddN", norms, "norm", (1,))
    halves = [
        runtime.launch(
            f"{NET}/optimizer-AdamW/Mul", [f"accu_grads.model.layers.{layer}.w", scale], f"u.{layer}", (8, 3)
        )
        for layer in reversed(layers)
    ]
    for layer, half in zip(layers, reversed(halves), strict=True):
        runtime.launch(f"{NET}/optimizer-AdamW/Assign", [f"model.layers.{layer}.w", half])


def _trace(runtime: Runtime, layers: range) -> Trace:
    beginning = [
        "model.embed",
        "model.table",
        "c.0",
        "c.1",
        *(f"{prefix}model.layers.{layer}.w" for prefix in ("", "accu_grads.") for layer in reversed(layers)),
    ]
    return recorded(runtime, beginning)


def recorded(runtime: Runtime, beginning: Sequence[str]) -> Trace:
    """What it launches. ``beginning``: names of the tensors that are there before the first step, and stay."""
    recorder = _Recorder(runtime.plan, beginning)
    for _ in range(runtime.steps):
        recorder.step()
    return Trace(
        folder="toy", rank=0, kernels=tuple(recorder.kernels), tasks=tuple(recorder.tasks), blocks=recorder.blocks()
    )


class _Recorder:
    """What the tracker writes down: every allocation, launch and release is one event of one clock.

    ``beginning``: names of the tensors that are there before the first step, and stay."""

    def __init__(self, plan: Sequence[Launch], beginning: Sequence[str]) -> None:
        self.kernels: list[Kernel] = []
        self.tasks: list[Task] = []
        self._blocks: dict[int, Block] = {}
        self._users: dict[int, list[int]] = {}
        self._ends: dict[int, int] = {}
        self._plan, self._names, self._beginning = plan, _named(plan), frozenset(beginning)
        self._last = {name: row for row, (_, _, _, inputs, _) in enumerate(plan) for name in inputs}
        self._maker: dict[str, int] = {}
        for row, (*_, made) in enumerate(plan):
            for output, _ in made:
                self._maker.setdefault(output, row)
        self._coming = next((made for *_, made in plan if made and made[0][0] == RECEIVED), [])
        self._clock = -1
        self._ids: dict[str, int] = {}
        for name in beginning:
            self.tasks.append(_task(self._tick(), name, (), (self._clock + 1,)))
            self._allocate(name, name, 512, "ConstantValue" if name.startswith("c.") else "Weight")

    def step(self) -> None:
        for row, (name, (_, stream, event, inputs, made)) in enumerate(zip(self._names, self._plan, strict=True)):
            kernel = Kernel(
                index=len(self.kernels) + 1,
                name=name,
                stream=stream,
                graph="kernel_graph0",
                event=event,
                primitive=name.rpartition("/")[2].partition("-op")[0],
                output=f"node{row}",
                inputs=tuple(f"node{self._maker[item]}" for item in inputs if item not in self._beginning),
            )
            self.kernels.append(kernel)
            read = tuple(self._ids[item] for item in inputs)
            born = self._born(row, made)
            for output, tensor in born:
                size_bytes = -(-tensor.shape[0] * tensor.shape[-1] * 2 // 512) * 512 + 512 * tensor.shape[-1]
                self._allocate(output, name, size_bytes, "Kernel")
            if not born:
                self._tick()
            waits = {"StreamSend": "RecordEvent", "StreamRecv": "WaitEvent"}.get(kernel.primitive)
            self.tasks.append(
                _task(
                    self._clock,
                    waits or name,
                    read,
                    tuple(self._ids[output] for output, _ in made),
                    tuple(tensor for _, tensor in made),
                    event,
                )
            )
            for block in read:
                self._users.setdefault(block, []).append(self._clock)
            self._release([*inputs, *(output for output, _ in made)], row)

    def _born(self, row: int, made: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
        """What a launch allocates: what it makes; but a message that the step begins with is there at once."""
        if self._coming and not row:
            return self._coming
        return [] if made == self._coming else made

    def _allocate(self, tensor: str, node: str, size_bytes: int, kind: str) -> None:
        self._ids[tensor] = self._tick()
        self._blocks[self._clock] = _block(self._clock, node, size_bytes, kind)

    def _release(self, tensors: Iterable[str], row: int) -> None:
        """Those that no later launch of the step reads."""
        for name in dict.fromkeys(tensors):
            if name not in self._beginning and self._last.get(name, row) == row:
                self._ends[self._ids[name]] = self._tick()

    def blocks(self) -> Blocks:
        used, rows = 0, []
        ends = deque(sorted((end, self._blocks[start].size_bytes) for start, end in self._ends.items()))
        for start, block in sorted(self._blocks.items()):
            while ends and ends[0][0] <= start:
                used -= ends.popleft()[1]
            used += block.size_bytes
            users = tuple(self._users.get(start, ()))
            rows.append(replace(block, end=self._ends.get(start), users=users, used_bytes=used))
        return Blocks.of(rows)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def _named(plan: Sequence[Launch]) -> list[str]:
    count: dict[str, int] = {}
    found = []
    for name, *_ in plan:
        count[name] = count.get(name, -1) + 1
        found.append(f"{name}-op{count[name]}")
    return found


def _task(
    event: int,
    name: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    made: tuple[Tensor, ...] = (),
    waits: str = "",
) -> Task:
    return Task(
        event=event,
        name=name,
        inputs=inputs,
        outputs=outputs,
        output_tensors=made,
        attributes=(("event", waits), ("stream_id", "0")) if waits else (("stream_id", "0"),),
        input_tensors=(Tensor("BFloat16", (8, 8)),) * len(inputs),
    )


def _block(start: int, node: str, size_bytes: int, kind: str) -> Block:
    return Block(
        start=start,
        end=None,
        address=0,
        size_bytes=size_bytes,
        stream=0,
        pool="Default",
        kind=kind,
        task=None,
        task_name=node,
        node=node,
        users=(),
        is_persistent=kind != "Kernel",
        used_bytes=0,
        pool_peak_bytes=0,
    )
