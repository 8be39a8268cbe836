"""The graph that execute_order.csv itself describes, read by other means than the package's: no kernel, program or
timeline of swapconf has a part in it.

Every row is a node, StreamSend and StreamRecv too, which take no time. A row follows the one before it on its stream,
and a StreamRecv follows the StreamSend of its event. Rows that come again belong to a later step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROW = re.compile(r'^"(?=\d+",")', re.MULTILINE)
_CLOSE = 1e-9


@dataclass(frozen=True)
class Node:
    name: str
    stream: int
    follows: tuple[int, ...]

    @property
    def is_event(self) -> bool:
        return "StreamSend" in self.name or "StreamRecv" in self.name


def read(file: Path) -> list[Node]:
    """The rows of one step, in order, each after all that it follows."""
    nodes: list[Node] = []
    seen: set[tuple[str, str]] = set()
    latest: dict[str, int] = {}
    sent: dict[str, int] = {}
    for text in _ROW.split(file.read_text(encoding="utf-8"))[1:]:
        _, name, _, stream, *node, event, _ = text.rstrip().split('","')
        graph = node[0].partition(":")[0]
        if (graph, name) in seen:
            continue
        seen.add((graph, name))
        follows = [latest[stream]] if stream in latest else []
        if "StreamRecv" in name:
            follows.append(sent[event])
        latest[stream] = len(nodes)
        if "StreamSend" in name:
            sent[event] = len(nodes)
        nodes.append(Node(name=name, stream=int(stream), follows=tuple(follows)))
    return nodes


def violations(
    nodes: Sequence[Node], names: Sequence[str], start_us: Sequence[float], end_us: Sequence[float]
) -> list[str]:
    """What is wrong with a timeline of the kernels of these rows: their order, a start before something has ended that
    the kernel follows through whatever rows, a step that is not the longest path, or shorter than a stream is busy."""
    kernels = [index for index, node in enumerate(nodes) if not node.is_event]
    if [nodes[index].name for index in kernels] != list(names):
        return ["the kernels are not those of the file"]
    place = {index: item for item, index in enumerate(kernels)}
    wrong: list[str] = []
    ready, longest = [0.0] * len(nodes), [0.0] * len(nodes)
    busy: dict[int, float] = {}
    for index, node in enumerate(nodes):
        ready[index] = max((ready[other] for other in node.follows), default=0.0)
        longest[index] = max((longest[other] for other in node.follows), default=0.0)
        if index in place:
            item = place[index]
            if start_us[item] < ready[index]:
                wrong.append(f"{node.name} starts {ready[index] - start_us[item]} us too early")
            ready[index] = end_us[item]
            longest[index] += end_us[item] - start_us[item]
            busy[node.stream] = busy.get(node.stream, 0.0) + end_us[item] - start_us[item]
    step = max(end_us)
    if abs(step - max(longest)) > _CLOSE * step:
        wrong.append(f"the step takes {step} us, its longest path {max(longest)} us")
    wrong += [
        f"stream {stream} is busy for {time} us of {step}"
        for stream, time in busy.items()
        if time > step * (1 + _CLOSE)
    ]
    return wrong
