"""EXECUTE_ORDER.CSV -> KERNELS: every launch of a run, in order.

Values are quoted, but a quote inside one is not escaped, so a row is cut at the quoted commas around the fields: the
first four from the left, the last two from the right, what is left between them describes the node:
``@graph:output{[0]: ValueNode<Primitive> PrimFunc_Add, [1]: input, [2]: ValueNode<Int64Imm> 0}``. A constant tensor in
there is printed on several lines, so a row goes on until it has all of its values. A text that comes again, as most
inputs do, is kept once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from sys import intern

from swapconf.files.table_lines import GARBLED, HEADER, MAX_LINE_BYTES, TRUNCATED, Damage, lines, number, shown
from swapconf.trace.trace import Kernel
from swapconf.words.phrases import phrase

COLUMNS = "index,node_name,logic_id,stream_id,node_info,event_id,group"
_CUT = '","'
_START = re.compile(r'"\d+","')
_ARGUMENT = re.compile(r", \[\d+\]: ")
_PRIMITIVE = re.compile(r"ValueNode<\w+> (?:PrimFunc_)?(\w[\w.:]*)")


def read(path: str | Path) -> tuple[Kernel, ...]:
    """The kernels of a file. Raises SwapconfError, with a finding for each row that is wrong."""
    damage = Damage(path)
    kernels: list[Kernel] = []
    source = lines(path, damage)
    _, header = next(source, (0, ""))
    if not header:
        damage.add(TRUNCATED, phrase("the file is empty"))
    elif header.rstrip(",") != COLUMNS:
        damage.add(HEADER, phrase("the header is {header}", header=shown(header)), 1)
    damage.refuse()
    for line, row in _rows(source):
        with damage.at(line):
            kernels.append(_kernel(row))
            _follows(kernels)
    if not kernels:
        damage.add(GARBLED, phrase("no kernel was launched"))
    damage.refuse()
    return tuple(kernels)


def _rows(source: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Each row with the number of its first line, whole or as much of it as there is."""
    first, row = 0, ""
    for line, text in source:
        if row and (_START.match(text) or len(row) > MAX_LINE_BYTES):
            yield first, row
            row = ""
        first, row = (first, f"{row} {text}") if row else (line, text)
        if _is_whole(row):
            yield first, row
            row = ""
    if row:
        yield first, row


def _is_whole(row: str) -> bool:
    return row.endswith('"') and row.count(_CUT) >= 6


def _kernel(row: str) -> Kernel:
    if not (_START.match(row) and _is_whole(row)):
        raise ValueError(phrase("{text} is not a row of seven quoted values", text=shown(row)))
    index, name, _, stream, rest = row[1:-1].split(_CUT, 4)
    node, event, group = rest.rsplit(_CUT, 2)
    graph, output, arguments = _node(node)
    return Kernel(
        index=number(index, "index"),
        name=intern(name),
        stream=number(stream, "stream_id"),
        graph=intern(graph),
        primitive=intern(_primitive(arguments[0])),
        output=intern(output),
        inputs=tuple(map(intern, arguments[1:])),
        event=intern(event),
        group=intern(group),
    )


def _node(text: str) -> tuple[str, str, list[str]]:
    """(graph, output, the primitive and its inputs)."""
    head, brace, body = text.partition("{[0]: ")
    graph, colon, output = head.removeprefix("@").rpartition(":")
    if not (head.startswith("@") and brace and colon and output and body.endswith("}")):
        raise ValueError(phrase("node_info is {text}, not `@graph:output{{[0]: primitive, ...}}`", text=shown(text)))
    return graph, output, _ARGUMENT.split(body[:-1])


def _primitive(text: str) -> str:
    match = _PRIMITIVE.fullmatch(text)
    if match is None:
        raise ValueError(phrase("{text} is not a primitive", text=shown(text)))
    return match[1]


def _follows(kernels: list[Kernel]) -> None:
    """Rows count on from 1; a gap means that rows are missing."""
    if kernels[-1].index != (expected := kernels[-2].index + 1 if len(kernels) > 1 else 1):
        raise ValueError(
            phrase("row {index} stands where row {expected} is expected", index=kernels[-1].index, expected=expected)
        )
