"""A toy model that is run by a toy of MindSpore's runtime: its trace for any number of layers, to the last event.

Each layer has a weight that is copied (``TensorMove``) before the first layer, a product, a sum over cards on a stream
of its own, and a norm; its activations live until its gradient, which comes in opposite order and is named after the
last layer. The norms of all gradients are added up in one launch; then each weight is updated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from swapconf.blocks import Block, Blocks
from swapconf.simulation import NEVER
from swapconf.trace import Kernel, Task, Tensor, Trace

NET = "Default/network-Model"
SIZES = {"BFloat16": 2, "Float32": 4}


@dataclass
class Runtime:
    """Counts events, gives ids, and releases each tensor behind its last reader."""

    steps: int
    plan: list[tuple[str, int, str, list[str], list[tuple[str, Tensor]]]] = field(default_factory=list)

    def launch(self, name: str, inputs: Sequence[str] = (), output: str = "", shape: tuple[int, ...] = (8, 8),
               stream: int = 0, event: str = "") -> str:
        made = [(output, Tensor("BFloat16", shape))] if output else []
        self.plan.append((name, stream, event, list(inputs), made))
        return output


def toy(num_layers: int, micro_batches: int = 2, steps: int = 2, first: int = 0, uneven: bool = False) -> Trace:
    """Layers ``first`` to ``first + num_layers - 1``. ``uneven``: the backward pass of the last one does one thing
    more in its middle."""
    runtime = Runtime(steps=steps)
    layers = range(first, first + num_layers)
    for layer in sorted(layers, key=lambda number: (number - first) * 7 % 5):  # MindSpore has no order for these
        runtime.launch("Default/TensorMove", [f"model.layers.{layer}.w"], f"copy.{layer}", (8, 3))
    for batch in range(micro_batches):
        _forward(runtime, layers, batch)
        _backward(runtime, layers, batch, uneven)
    _optimizer(runtime, layers)
    return _trace(runtime, layers)


def _cell(layer: int, cell: str) -> str:
    return f"{NET}/model-Toy/layers-CellList/{layer}-Layer/{cell}-Cell"


def _forward(runtime: Runtime, layers: range, batch: int) -> None:
    seen = runtime.launch(f"{NET}/model-Toy/embed-Embedding/Gather", ["model.embed"], f"h.{batch}")
    table = runtime.launch(f"{NET}/model-Toy/rotary-Rotary/Cos", ["model.table"], f"cos.{batch}", (4,))
    for layer in layers:
        norm = runtime.launch(f"{_cell(layer, 'norm')}/RmsNorm", [seen, f"copy.{layer}"], f"n.{layer}.{batch}")
        made = runtime.launch(f"{_cell(layer, 'mlp')}/MatMul", [norm, table, f"c.{layer % 2}"], f"m.{layer}.{batch}",
                              (8, 8 + 2 * (layer % 2)))
        runtime.launch("Default/StreamSend", event=f"s{layer}.{batch}", stream=0)
        runtime.launch("Default/StreamRecv", event=f"s{layer}.{batch}", stream=1)
        summed = runtime.launch(f"{_cell(layer, 'mlp')}/AllReduce", [made], f"r.{layer}.{batch}", stream=1)
        runtime.launch("Default/StreamSend", event=f"t{layer}.{batch}", stream=1)
        runtime.launch("Default/StreamRecv", event=f"t{layer}.{batch}", stream=0)
        seen = runtime.launch(f"{_cell(layer, 'add')}/Add", [seen, summed], f"x.{layer}.{batch}")
    runtime.launch(f"{NET}/loss-Loss/Log", [seen], f"loss.{batch}", (5, 5))


def _backward(runtime: Runtime, layers: range, batch: int, uneven: bool) -> None:
    seen = runtime.launch(f"Gradients/{NET}/loss-Loss/Grad_Log/LogGrad", [f"loss.{batch}"], f"dl.{batch}")
    for layer in reversed(layers):
        cell = f"Gradients/{_cell(layers[-1], 'mlp')}/Grad_MatMul/MatMul"
        for turn in range(8):
            seen = runtime.launch(f"Gradients/{_cell(layer, 'mlp')}/Grad_Mul/Mul", [seen], f"g{turn}.{layer}.{batch}",
                                  (8, 4 + turn))
        if uneven and layer == layers[-1]:
            runtime.launch(f"Gradients/{NET}/loss-Loss/Grad_Log/Assign", [seen, "model.table"])
        weight = runtime.launch(cell, [seen, f"n.{layer}.{batch}", f"m.{layer}.{batch}"], f"dw.{layer}.{batch}", (8, 3))
        runtime.launch(f"Gradients/{_cell(layer, 'mlp')}/AssignAdd", [weight, f"accu_grads.model.layers.{layer}.w"])
        seen = runtime.launch(f"Gradients/{_cell(layer, 'norm')}/Grad_RmsNorm/RmsNormGrad",
                              [seen, f"x.{layer}.{batch}", f"copy.{layer}"], f"dx.{layer}.{batch}")
    runtime.launch(f"Gradients/{NET}/model-Toy/embed-Embedding/Grad/ScatterAdd", [seen, "model.embed"])


def _optimizer(runtime: Runtime, layers: range) -> None:
    norms = [runtime.launch(f"{NET}/clip_grad_norm-Clip/Square", [f"accu_grads.model.layers.{layer}.w"], f"q.{layer}",
                            (2,)) for layer in layers]
    scale = runtime.launch(f"{NET}/clip_grad_norm-Clip/AddN", norms, "norm", (1,))
    halves = [runtime.launch(f"{NET}/optimizer-AdamW/Mul", [f"accu_grads.model.layers.{layer}.w", scale],
                             f"u.{layer}", (8, 3)) for layer in reversed(layers)]
    for layer, half in zip(layers, reversed(halves), strict=True):
        runtime.launch(f"{NET}/optimizer-AdamW/Assign", [f"model.layers.{layer}.w", half])


def _trace(runtime: Runtime, layers: range) -> Trace:
    clock, blocks, tasks, ids = -1, dict[int, Block](), list[Task](), dict[str, int]()
    beginning = ["model.embed", "model.table", "c.0", "c.1", *(
        f"{prefix}model.layers.{layer}.w" for prefix in ("", "accu_grads.") for layer in reversed(layers))]
    for name in beginning:
        clock += 1
        tasks.append(_task(clock, name, (), (clock + 1,)))
        clock += 1
        blocks[clock] = _block(clock, name, 512, "ConstantValue" if name.startswith("c.") else "Weight")
        ids[name] = clock
    launches = _named(runtime.plan)
    kernels: list[Kernel] = []
    for _ in range(runtime.steps):
        last = {name: row for row, (_, _, _, inputs, _) in enumerate(runtime.plan) for name in inputs}
        for row, (name, (_, stream, event, inputs, made)) in enumerate(zip(launches, runtime.plan, strict=True)):
            kernels.append(Kernel(
                index=len(kernels) + 1, name=name, stream=stream, graph="kernel_graph0", event=event,
                primitive=name.rpartition("/")[2].partition("-op")[0], output=f"node{row}",
                inputs=tuple(f"node{_maker(runtime.plan, item)}" for item in inputs if item not in beginning)))
            read = tuple(ids[item] for item in inputs)
            for output, tensor in made:
                clock += 1
                ids[output] = clock
                blocks[clock] = _block(clock, name, -(-tensor.shape[0] * tensor.shape[-1] * 2 // 512) * 512
                                       + 512 * tensor.shape[-1], "Kernel")
            if not made:
                clock += 1
            waits = {"StreamSend": "RecordEvent", "StreamRecv": "WaitEvent"}.get(kernels[-1].primitive)
            tasks.append(_task(clock, waits or name, read, tuple(ids[output] for output, _ in made),
                               tuple(tensor for _, tensor in made), event))
            for block in read:
                blocks[block] = replace(blocks[block], users=(*blocks[block].users, clock))
            for item in dict.fromkeys([*inputs, *(output for output, _ in made)]):
                if item not in beginning and last.get(item, row) == row:
                    clock += 1
                    blocks[ids[item]] = replace(blocks[ids[item]], end=clock)
    return Trace(folder="toy", rank=0, kernels=tuple(kernels), tasks=tuple(tasks), blocks=_summed(blocks))


def _named(plan: Sequence[tuple[str, int, str, list[str], list[tuple[str, Tensor]]]]) -> list[str]:
    count: dict[str, int] = {}
    found = []
    for name, *_ in plan:
        count[name] = count.get(name, -1) + 1
        found.append(f"{name}-op{count[name]}")
    return found


def _maker(plan: Sequence[tuple[str, int, str, list[str], list[tuple[str, Tensor]]]], name: str) -> int:
    return next(row for row, (*_, made) in enumerate(plan) if any(output == name for output, _ in made))


def _task(event: int, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], made: tuple[Tensor, ...] = (),
          waits: str = "") -> Task:
    return Task(event=event, name=name, inputs=inputs, outputs=outputs, output_tensors=made,
                attributes=(("event", waits), ("stream_id", "0")) if waits else (("stream_id", "0"),),
                input_tensors=(Tensor("BFloat16", (8, 8)),) * len(inputs))


def _block(start: int, node: str, size_bytes: int, kind: str) -> Block:
    return Block(start=start, end=None, address=0, size_bytes=size_bytes, stream=0, pool="Default", kind=kind,
                 task=None, task_name=node, node=node, users=(), is_persistent=kind != "Kernel", used_bytes=0,
                 pool_peak_bytes=0)


def _summed(blocks: dict[int, Block]) -> Blocks:
    used, rows = 0, []
    ends = sorted((block.end, block.size_bytes) for block in blocks.values() if block.end is not None)
    for start in sorted(blocks):
        while ends and ends[0][0] <= start:
            used -= ends.pop(0)[1]
        used += blocks[start].size_bytes
        rows.append(replace(blocks[start], used_bytes=used))
    assert all(row.end is None or row.end < NEVER for row in rows)
    return Blocks.of(rows)
