"""FUSED KERNELS: the operators inside each kernel that MindSpore makes of several (``jit_level: O1``), and their file.

They are what MindSpore prints of its last pass that splits fused kernels (`fused_kernels_text`). fused_kernels.json.gz
lists each set of operators once: micro-batches and equal layers share theirs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.files.opening import read_bytes
from swapconf.files.table_lines import GARBLED, NOT_FOUND, Damage
from swapconf.files.writing import replace_by_copy, whole
from swapconf.trace.func_graph_text import Argument, Kind
from swapconf.trace.tensor import Tensor
from swapconf.words.phrases import phrase

FILE = "fused_kernels.json.gz"
MAX_DOCUMENT_BYTES = 2**26
_MAX_GIVEN = 2**16
_KINDS = tuple(Kind)
_FORM = 2  # of the file; raised whenever a field changes its meaning


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedOperator:
    """One operator inside a fused kernel.

    Attributes:
        name: With its scope, ``Default/Cast-op3`` of what MindSpore put in.
        arguments: Operators of the same kernel whose outputs it reads (``NODE``), inputs of the kernel (``PARAMETER``),
            and constants.
        made: None where it is no tensor.
        is_copy: MindSpore made it of another operator, for a recompute (``duplicated``).
        unique, forward_unique: As in `LaunchGraph`.
    """

    name: str
    primitive: str
    arguments: tuple[Argument, ...]
    made: Tensor | None
    is_copy: bool
    unique: str = ""
    forward_unique: str = ""

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """Operators and inputs of the kernel, in the order in which it takes them, each once."""
        return tuple(dict.fromkeys(argument for argument in self.arguments if argument.kind is not Kind.CONSTANT))

    @property
    def read(self) -> tuple[int, ...]:
        """Numbers of operators of the same kernel, each once."""
        return self._numbers(Kind.NODE)

    @property
    def given(self) -> tuple[int, ...]:
        """Numbers of inputs of the kernel, each once."""
        return self._numbers(Kind.PARAMETER)

    @property
    def constants(self) -> tuple[str, ...]:
        """As MindSpore prints them."""
        return tuple(argument.text for argument in self.arguments if argument.kind is Kind.CONSTANT)

    def _numbers(self, kind: Kind) -> tuple[int, ...]:
        return tuple(dict.fromkeys(argument.number for argument in self.arguments if argument.kind is kind))


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedKernel:
    """``operators``: each behind those that it reads. ``outputs``: numbers of those whose outputs the kernel writes."""

    operators: tuple[FusedOperator, ...]
    outputs: tuple[int, ...]


def write(kernels: Mapping[str, FusedKernel], path: Path) -> None:
    """Put the fused kernels of a run, by name, into a file, the same bytes for the same kernels. Raises OSError, and
    ValueError where they are more than `read` takes."""
    texts: dict[str, int] = {}
    number: dict[FusedKernel, int] = {}

    def code(text: str) -> int:
        return texts.setdefault(text, len(texts))

    of_kernel = {name: number.setdefault(kernel, len(number)) for name, kernel in kernels.items()}
    columns = {
        "form": _FORM,
        "kernels": of_kernel,
        "sets": [[[_row(operator, code) for operator in kernel.operators], kernel.outputs] for kernel in number],
        "texts": list(texts),
    }
    document = json.dumps(columns, separators=(",", ":")).encode()
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"{len(kernels):,} fused kernels are too many to be kept")
    with whole(path) as stream:
        stream.write(gzip.compress(document, mtime=0))


def _row(operator: FusedOperator, code: Any) -> list[Any]:
    made = operator.made
    return [
        code(operator.name),
        code(operator.primitive),
        [_argument_row(argument, code) for argument in operator.arguments],
        None if made is None else [code(made.dtype), made.shape],
        int(operator.is_copy),
        code(operator.unique),
        code(operator.forward_unique),
    ]


def _argument_row(argument: Argument, code: Any) -> list[int]:
    is_constant = argument.kind is Kind.CONSTANT
    return [_KINDS.index(argument.kind), code(argument.text) if is_constant else argument.number]


def copy(source: Path, folder: Path) -> None:
    """The file of one folder into another, which has none afterwards if the first has none. Raises OSError."""
    if (source / FILE).exists():
        replace_by_copy(folder / FILE, source / FILE)
    else:
        (folder / FILE).unlink(missing_ok=True)


def read(path: str | Path) -> Mapping[str, FusedKernel]:
    """By name of the kernel, as execute_order.csv has it. Raises SwapconfError where the file is damaged."""
    damage = Damage(path)
    try:
        return _of_document(json.loads(_unpacked(read_bytes(path, MAX_DOCUMENT_BYTES))))
    except OSError as error:
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    except (ValueError, LookupError, TypeError, RecursionError, MemoryError, zlib.error):
        damage.add(GARBLED, phrase("these are not the fused kernels of a step as `swapconf dryrun` writes them"))
    damage.refuse()
    raise AssertionError("refuse raises")


def _unpacked(data: bytes) -> bytes:
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = packed.decompress(data, MAX_DOCUMENT_BYTES)
    if not packed.eof or packed.unused_data:
        raise ValueError
    return content


def _of_document(document: Mapping[str, Any]) -> Mapping[str, FusedKernel]:
    """Raises ValueError, LookupError and TypeError where a value is none that `write` gives."""
    texts = document["texts"]
    of_kernel = document["kernels"]
    if document["form"] != _FORM or not all(isinstance(text, str) for text in texts) or not isinstance(of_kernel, dict):
        raise ValueError
    sets = [_kernel(rows, outputs, texts) for rows, outputs in document["sets"]]
    return {str(name): sets[_number(place, len(sets))] for name, place in of_kernel.items()}


def _kernel(rows: list[Any], outputs: list[Any], texts: list[str]) -> FusedKernel:
    operators = []
    for number, (name, primitive, arguments, made, is_copy, unique, forward_unique) in enumerate(rows):
        operators.append(
            FusedOperator(
                name=texts[_number(name, len(texts))],
                primitive=texts[_number(primitive, len(texts))],
                arguments=tuple(_argument(kind, value, number, texts) for kind, value in arguments),
                made=None if made is None else _tensor(made, texts),
                is_copy=bool(_number(is_copy, 2)),
                unique=texts[_number(unique, len(texts))],
                forward_unique=texts[_number(forward_unique, len(texts))],
            )
        )
    return FusedKernel(operators=tuple(operators), outputs=tuple(_number(output, len(operators)) for output in outputs))


def _argument(kind: Any, value: Any, before: int, texts: list[str]) -> Argument:
    """``before``: how many operators stand in front of the one that reads it."""
    found = _KINDS[_number(kind, len(_KINDS))]
    if found is Kind.CONSTANT:
        return Argument(found, text=texts[_number(value, len(texts))])
    return Argument(found, _number(value, before if found is Kind.NODE else _MAX_GIVEN))


def _tensor(made: list[Any], texts: list[str]) -> Tensor:
    dtype, shape = made
    if not all(type(size) is int for size in shape):
        raise ValueError
    return Tensor(texts[_number(dtype, len(texts))], tuple(shape))


def _number(value: Any, stop: int) -> int:
    """``value``, if it is a whole number below ``stop``. Raises ValueError."""
    if type(value) is not int or not 0 <= value < stop:
        raise ValueError
    return value
