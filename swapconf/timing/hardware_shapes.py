"""SHAPES OF A HARDWARE FILE <-> SEEN: the measured shapes as they stand in the file.

```json
{"type": "MatMulV3", "inputs": "BFloat16[4096,1024]; BFloat16[6144,1024]", "outputs": "BFloat16[4096,6144]",
 "us": 238.79, "launches": 28}
```

A tensor that does not lie as its shape says has its format behind it, ``BFloat16[64,256,16,16] FRACTAL_NZ``. The schema
has checked what is parsed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swapconf.timing.hardware_names import MOST_KERNEL_US
from swapconf.timing.seen import Seen, SeenShape, Tensors
from swapconf.trace.trace import Tensor

BETWEEN = "; "
MOST_NAME, MOST_TEXT = 200, 20_000  # as the schema has them
_TENSOR = re.compile(r"([A-Za-z0-9_]*)\[((?:[0-9]{1,16}(?:,[0-9]{1,16})*)?)\](?: ([A-Za-z0-9_:.]{1,40}))?")
_TENSORS = re.compile(rf"{_TENSOR.pattern}(?:{BETWEEN}{_TENSOR.pattern})*")


def told(seen: Seen) -> list[dict[str, Any]]:
    """Without those few that a file cannot tell: of a type with a strange name, of thousands of tensors."""
    return [
        {
            "type": shape.type,
            **({"primitive": shape.primitive} if shape.primitive else {}),
            "inputs": _text(shape.inputs, shape.formats[0]),
            "outputs": _text(shape.outputs, shape.formats[1]),
            "us": round(shape.us, 6),
            "launches": shape.launches,
        }
        for shape in seen.shapes
        if _can_be_told(shape)
    ]


def parsed(data: Iterable[Mapping[str, Any]]) -> Seen:
    shapes = []
    for item in data:
        inputs, in_formats = _tensors(item["inputs"])
        outputs, out_formats = _tensors(item["outputs"])
        is_plain = not any(in_formats) and not any(out_formats)
        shapes.append(
            SeenShape(
                type=item["type"],
                primitive=item.get("primitive", ""),
                inputs=inputs,
                outputs=outputs,
                formats=((), ()) if is_plain else (in_formats, out_formats),
                us=float(item["us"]),
                launches=int(item["launches"]),
            )
        )
    return Seen().with_later(Seen(tuple(shapes)))


def _can_be_told(shape: SeenShape) -> bool:
    texts = [_text(tensors, names) for tensors, names in zip((shape.inputs, shape.outputs), shape.formats, strict=True)]
    return (
        all(0 < len(name) <= MOST_NAME for name in shape.names)
        and shape.us <= MOST_KERNEL_US
        and all(len(text) <= MOST_TEXT and (not text or _TENSORS.fullmatch(text)) for text in texts)
    )


def _text(tensors: Tensors, formats: Sequence[str]) -> str:
    names = (*formats, *("",) * (len(tensors) - len(formats)))
    return BETWEEN.join(
        f"{tensor.dtype}[{','.join(map(str, tensor.shape))}] {name}".rstrip()
        for tensor, name in zip(tensors, names, strict=True)
    )


def _tensors(text: str) -> tuple[Tensors, tuple[str, ...]]:
    found = [match for match in map(_TENSOR.fullmatch, text.split(BETWEEN)) if match]
    return (
        tuple(Tensor(one[1], tuple(map(int, filter(None, one[2].split(","))))) for one in found),
        tuple(one[3] or "" for one in found),
    )
