"""LAUNCH GRAPH: the nodes among which MindSpore decides the order of the kernels, and the file that keeps them.

It is MindSpore's last graph, as `launch_graph_text` reads it. launch_graph.json.gz has its columns, each text once, in
less than a hundredth of the bytes that MindSpore prints.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from swapconf.files.opening import read_bytes
from swapconf.files.table_lines import GARBLED, NOT_FOUND, Damage
from swapconf.files.writing import replace_by_copy, whole
from swapconf.trace.columns import Flags, Ints
from swapconf.words.phrases import phrase

FILE = "launch_graph.json.gz"
MAX_NODES = 2**18
MAX_DOCUMENT_BYTES = 2**26  # 200 a node
NO_NODE = -1
_FORM = 1  # of the file; raised whenever a column changes its meaning

RETURN, ITEM, TUPLE = "Return", "TupleGetItem", "MakeTuple"
DEPEND, LOAD, STATE = "Depend", "Load", "UpdateState"
SAME_VALUE = frozenset({DEPEND, LOAD})  # of their first input
# nodes that are launched nowhere
UNLAUNCHED = frozenset({"Call", DEPEND, LOAD, TUPLE, "Partial", RETURN, "Switch", ITEM, STATE, "make_tuple"})
COMMUNICATION = frozenset(
    {
        "AllGather",
        "AllGatherV",
        "AllReduce",
        "AllToAll",
        "AllToAllV",
        "AllToAllv",
        "AlltoAll",
        "AlltoAllV",
        "Barrier",
        "Broadcast",
        "Receive",
        "ReduceScatter",
        "ReduceScatterV",
        "Send",
    }
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchGraph:
    """Columns over the nodes of a graph, n of them.

    Attributes:
        name: With its scope, as execute_order.csv names kernels; "" where a node has none.
        primitive: Without the prefix ``PrimFunc_``.
        inputs: Numbers of nodes in the order of the arguments, -1 for parameters and constants. No kernel reads a
            tuple: ``convert_tuple_input_to_dynamic_input`` takes it apart (in 176 graphs of MindSpore 2.7.1 to 2.10.0).
        item: [n] which output a TupleGetItem takes, else -1.
        unique: Number that MindSpore gave the node, "" where it gave none; ``forward_unique``: that of the node whose
            gradient it is.
        fused: The group of a communication that MindSpore may fuse with others (``fusion`` is not 0), else None.
        end: The Return.
        cluster: The fused kernel that each is an operator of, as a number, else -1; and ``given``: for each of its
            inputs the number of the kernel's input that it is, -1 for none.
        behind: Kernels that are launched behind all others, in this order, as those of another graph. These three are
            not kept in files.
        of_function: Kernels that a function of MindSpore calls, as the Cast of ``x.astype``: their primitive is no
            attribute of a cell. None of them in older files.
    """

    name: tuple[str, ...]
    primitive: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    item: Ints
    unique: tuple[str, ...]
    forward_unique: tuple[str, ...]
    fused: tuple[str | None, ...]
    end: int
    cluster: tuple[int, ...] = ()
    given: tuple[tuple[int, ...], ...] = ()
    behind: tuple[int, ...] = ()
    of_function: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.name)

    @cached_property
    def is_kernel(self) -> Flags:
        """[n] launched on a stream."""
        return np.array([primitive not in UNLAUNCHED for primitive in self.primitive], dtype=np.bool_)

    @cached_property
    def is_communication(self) -> Flags:
        """[n] exchanges something with other ranks."""
        return np.array([primitive in COMMUNICATION for primitive in self.primitive], dtype=np.bool_)


def write(graph: LaunchGraph, path: Path) -> None:
    """Put a graph into a file, the same bytes for the same graph. Raises OSError, and ValueError where it is larger
    than `read` takes."""
    texts: dict[str, int] = {}

    def codes(column: Iterable[str]) -> list[int]:
        return [texts.setdefault(text, len(texts)) for text in column]

    columns = {
        "form": _FORM,
        "name": codes(graph.name),
        "primitive": codes(graph.primitive),
        "inputs": graph.inputs,
        "item": graph.item.tolist(),
        "unique": codes(graph.unique),
        "forward_unique": codes(graph.forward_unique),
        "fused": [None if group is None else texts.setdefault(group, len(texts)) for group in graph.fused],
        "end": graph.end,
        "of_function": sorted(graph.of_function),
        "texts": list(texts),
    }
    document = json.dumps(columns, separators=(",", ":")).encode()
    if len(graph) > MAX_NODES or len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"a graph of {len(graph):,} nodes is too large to be kept")
    with whole(path) as stream:
        stream.write(gzip.compress(document, mtime=0))


def copy(source: Path, folder: Path) -> None:
    """The graph of one folder into another, which has none afterwards if the first has none. Raises OSError."""
    if (source / FILE).exists():
        replace_by_copy(folder / FILE, source / FILE)
    else:
        (folder / FILE).unlink(missing_ok=True)


def read(path: str | Path) -> LaunchGraph:
    """The graph in a file that `write` made. Raises SwapconfError where it is damaged."""
    damage = Damage(path)
    try:
        return _of_columns(json.loads(_unpacked(read_bytes(path, MAX_DOCUMENT_BYTES))))
    except OSError as error:
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    except (ValueError, LookupError, TypeError, RecursionError, MemoryError, zlib.error):
        damage.add(GARBLED, phrase("this is not the graph of a step as `swapconf dryrun` writes it"))
    damage.refuse()
    raise AssertionError("refuse raises")


def _unpacked(data: bytes) -> bytes:
    """Raises ValueError and zlib.error where it is cut off, too large, or something follows."""
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = packed.decompress(data, MAX_DOCUMENT_BYTES)
    if not packed.eof or packed.unused_data:
        raise ValueError
    return content


def _of_columns(columns: Mapping[str, Any]) -> LaunchGraph:
    """Raises ValueError, LookupError and TypeError where a value is none that `write` gives."""
    texts, count = columns["texts"], len(columns["name"])
    if columns["form"] != _FORM or count > MAX_NODES or not all(isinstance(text, str) for text in texts):
        raise ValueError

    def decoded(column: str) -> tuple[str, ...]:
        return tuple(texts[code] for code in _numbers(columns[column], count, 0, len(texts)))

    fused = columns["fused"]
    groups = iter(_numbers([code for code in fused if code is not None], None, 0, len(texts)))
    graph = LaunchGraph(
        name=decoded("name"),
        primitive=decoded("primitive"),
        inputs=tuple(tuple(_numbers(given, None, NO_NODE, count)) for given in columns["inputs"]),
        item=np.array(_numbers(columns["item"], count, NO_NODE, 10**9), dtype=np.int64),
        unique=decoded("unique"),
        forward_unique=decoded("forward_unique"),
        fused=tuple(None if code is None else texts[next(groups)] for code in fused),
        end=_numbers([columns["end"]], 1, 0, count)[0],
        of_function=frozenset(_numbers(columns.get("of_function", []), None, 0, count)),
    )
    if len(graph.inputs) != count or len(graph.fused) != count or graph.primitive[graph.end] != RETURN:
        raise ValueError
    return graph


def _numbers(values: Any, count: int | None, low: int, high: int) -> list[int]:
    """``values``, if they are ``count`` whole numbers of a range. Raises ValueError."""
    if not isinstance(values, list) or count not in (None, len(values)):
        raise ValueError
    if not all(type(value) is int and low <= value < high for value in values):
        raise ValueError
    return values
