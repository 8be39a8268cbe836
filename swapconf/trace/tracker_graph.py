"""TRACKER_GRAPH.IR -> TASKS: what MindSpore's memory tracker saw of each launch, on two lines or three::

    (%470) = Default/network/layers-CellList/0-Layer/norm/RmsNorm-op0(%462, %136), task_info: 470, attrs {stream_id=0}
        # File:...;Line:...;Function:...|
        (BFloat16:[4096, 512]) <- (Float32:[1, 4096, 512], Float32:[512])

The numbers are ids of tensors: the event at which their block was born. A view writes the id that it reads. There can
be fewer ids than tensors, because a tensor on the host has none. Most lists of tensors come again, and are kept once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from sys import intern

from swapconf.files.table_lines import DIMENSION, TRUNCATED, Damage, lines, number, shown
from swapconf.trace.trace import Task, Tensor
from swapconf.words.phrases import phrase

_TENSOR = re.compile(r"(\w+):\[([-\d, ]*)\](?:\{[^{}]*\})?(?:, |$)")
_TASK_INFO, _ATTRIBUTES, _ARROW = "), task_info: ", ", attrs {", ") <- ("
_ID = phrase("an id")


def read(path: str | Path) -> tuple[Task, ...]:
    """The tasks of a file. Raises SwapconfError, with a finding for each line that is wrong."""
    damage, reader, line = Damage(path), _Reader(), 0
    for line, text in lines(path, damage):
        if not text.startswith("    #"):
            with damage.at(line):
                reader.take(text)
    if not reader.tasks or reader.head:
        damage.add(
            TRUNCATED, phrase("the tensors of the last task are missing") if line else phrase("the file is empty"), line
        )
    damage.refuse()
    return tuple(reader.tasks)


class _Reader:
    """Joins the lines of a task. ``head``: the first line of a task whose tensors are still to come."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.head = ""

    def take(self, text: str) -> None:
        if text.startswith("    ("):
            head, self.head = self.head, ""
            self.tasks.append(_task(head, text.strip()))
        elif text.startswith("("):
            unfinished, self.head = self.head, text
            if unfinished:
                raise ValueError(phrase("the task before this line has no tensors"))
        elif text:
            raise ValueError(phrase("{text} is neither a task nor its tensors", text=shown(text)))


def _task(head: str, tensors: str) -> Task:
    outputs, equals, rest = head.partition(") = ")
    name_and_inputs, info, rest = rest.rpartition(_TASK_INFO)
    event, comma, attributes = rest.partition(_ATTRIBUTES)
    name, parenthesis, inputs = name_and_inputs.rpartition("(")
    written, arrow, given = tensors[1:-1].partition(_ARROW)
    if not (equals and info and comma and parenthesis and name and arrow and tensors.endswith(")")):
        raise ValueError(phrase("{head} and {tensors} are not a task", head=shown(head), tensors=shown(tensors)))
    return Task(
        event=number(event, "task_info"),
        name=intern(name),
        inputs=_ids(inputs),
        outputs=_ids(outputs.removeprefix("(")),
        attributes=_attributes(attributes),
        input_tensors=_tensors(given),
        output_tensors=_tensors(written),
    )


def _ids(text: str) -> tuple[int, ...]:
    return tuple(number(item.removeprefix("%"), _ID) for item in text.split(", ")) if text else ()


@lru_cache(maxsize=4096)
def _attributes(text: str) -> tuple[tuple[str, str], ...]:
    """``event=72;stream_id=0}``."""
    body, brace, _ = text.rpartition("}")
    if not brace:
        raise ValueError(phrase("attrs {text} has no end", text=shown(text)))
    parts = (part.partition("=") for part in body.split(";") if part)
    return tuple((name, value) for name, _, value in parts)


@lru_cache(maxsize=65536)
def _tensors(text: str) -> tuple[Tensor, ...]:
    tensors, end = [], 0
    while match := _TENSOR.match(text, end):
        sizes = match[2].replace(" ", "")
        tensors.append(Tensor(match[1], tuple(_size(size) for size in sizes.split(",")) if sizes else ()))
        end = match.end()
    if end != len(text):
        raise ValueError(phrase("{text} is not a tensor such as BFloat16:[4096, 512]", text=shown(text[end:])))
    return tuple(tensors)


def _size(text: str) -> int:
    """A dimension; -1 is one that is only known when it runs."""
    return -1 if text == "-1" else number(text, DIMENSION)
