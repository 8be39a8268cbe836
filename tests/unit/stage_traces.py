"""Traces of a pipeline of two stages, written as MindSpore writes them, and small enough to be reckoned by hand.

The order of each stage is that of the traces of a real Llama: the second micro-batch is computed before the gradient of
the first is awaited, and sent after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.trace import trace_folder
from swapconf.trace.trace import Trace

MICRO_BATCHES = 3
SIDE = 256
CELL = "Default/network-Net/model-Model/layers-CellList/{layer}-Layer/mlp-Linear"
_HEAD = (
    "start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,actual_used_memory,actual_peak_memory,"
    "line_num,type,producer_task,task_name,node_name,graph_name,user_tasks,last_user_task,is_persistent,is_small"
)
_SIZE_BYTES = 2 * SIDE * SIDE


@dataclass
class Writer:
    """The three files of one rank. Every kernel reads what the one before it on its stream has written."""

    rank: int
    order: list[str] = field(default_factory=list)
    graph: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    written: int = 0
    events: int = 0

    def kernel(self, name: str, stream: int = 0, group: str = "", side: int = SIDE, **attributes: object) -> None:
        primitive = name.rpartition("/")[2].partition("-op")[0]
        told = {**attributes, **({"group": group} if group else {}), "stream_id": stream}
        event = 10 * (len(self.blocks) + 1)
        tensor = f"BFloat16:[{side}, {SIDE}]"
        inputs = (f"%{self.written}",) * (2 if primitive == "MatMul" else 1) if self.written else ()
        attrs = ";".join(f"{key}={value}" for key, value in told.items())
        self.graph += [
            f"(%{event}) = {name}({', '.join(inputs)}), task_info: {event}, attrs {{{attrs}}}",
            f"    ({tensor}) <- ({', '.join([tensor] * max(len(inputs), 1))})",
        ]
        self._launch(name, primitive, stream, "", group)
        used = _SIZE_BYTES * (len(self.blocks) + 1)
        self.blocks.append(
            f"{event},9223372036854775807,{0x1000 + used:#x},{stream},DefaultEnhancedAscendMemoryPool,"
            f"{_SIZE_BYTES},{used},{used},1,KernelOutput,{event},Actor,{name},,{{{event}}},{event},0,0"
        )
        self.written = event

    def after(self, earlier: int, later: int) -> None:
        """What is launched next on a stream waits for what another has been given."""
        self.events += 1
        for name, stream in (("StreamSend", earlier), ("StreamRecv", later)):
            self._launch(f"Default/{name}-op{self.events}", name, stream, str(self.events), "")

    def _launch(self, name: str, primitive: str, stream: int, event: str, group: str) -> None:
        self.order.append(
            f'"{len(self.order) + 1}","{name}","0","{stream}",'
            f'"@kernel_graph0:out{{[0]: ValueNode<Primitive> {primitive}}}","{event}","{group}"'
        )

    def save(self, folder: Path, stage: int) -> None:
        folder.mkdir(parents=True)
        for name, lines in (
            (trace_folder.ORDER, ["index,node_name,logic_id,stream_id,node_info,event_id,group", *self.order]),
            (trace_folder.GRAPH, self.graph),
            (trace_folder.BLOCKS, [_HEAD, *self.blocks]),
        ):
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        report = {
            "rank": self.rank,
            "stage": stage,
            "outcome": "completed",
            "origin": "dry run level 1 (operator workspace excluded)",
            "reserved_bytes": 1 << 30,
        }
        (folder / "run.json").write_text(json.dumps({"report": report}), encoding="utf-8")


def write(folder: Path, first_layer_side: int = SIDE, name: str = "MatMul") -> Path:
    """``rank_0`` and ``rank_4`` in a folder. ``first_layer_side``: rows of what stage 0 multiplies."""
    for rank, stage in ((0, 0), (4, 1)):
        writer = Writer(rank=rank)
        for what, micro in _steps(stage):
            _add(writer, what, micro, rank, stage, first_layer_side if stage == 0 else SIDE, name)
        writer.after(0, 2)
        writer.kernel("Default/network-Net/clip_grad_norm-ClipGradNorm/AllReduce-op0", 2, "norm", comm_rank="0 4")
        writer.after(2, 0)
        writer.kernel("Default/network-Net/optimizer-AdamW/Mul-op0")
        writer.save(folder / f"rank_{rank}", stage)
    return folder


def _steps(stage: int) -> Iterator[tuple[str, int]]:
    if stage == 0:
        yield from (("forward", 0), ("send", 0))
    for micro in range(MICRO_BATCHES):
        if stage == 1:
            yield from (("receive", micro), ("forward", micro), ("backward", micro), ("send gradient", micro))
            continue
        if more := micro + 1 < MICRO_BATCHES:
            yield "forward", micro + 1
        yield "receive gradient", micro
        if more:
            yield "send", micro + 1
        yield "backward", micro


def _add(writer: Writer, what: str, micro: int, rank: int, stage: int, side: int, name: str) -> None:
    cell, peer = CELL.format(layer=stage), 4 - rank
    if what == "forward":
        writer.kernel(f"{cell}/{name}-op{micro}", side=side)
    elif what == "backward":
        writer.kernel(f"Gradients/{cell}/{name}-op{micro}", side=side)
    elif what.startswith("send"):
        writer.after(0, 1)
        prefix = "Gradients/Default/Grad_Receive" if "gradient" in what else "Default"
        writer.kernel(f"{prefix}/Send-op{micro}", 1, "pp", comm_rank="0 4", dst_rank=peer)
    else:
        writer.after(0, 1)
        prefix = "Gradients/Default/Grad_Send" if "gradient" in what else "Default"
        writer.kernel(f"{prefix}/Receive-op{micro}", 1, "pp", comm_rank="0 4", src_rank=peer)
        writer.after(1, 0)


def traces(folder: Path) -> dict[int, Trace]:
    return {rank: trace_folder.read(folder / f"rank_{rank}", rank) for rank in (0, 4)}
