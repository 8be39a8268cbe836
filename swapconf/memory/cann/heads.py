"""HEADS: the axes of flash attention, from the shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.memory.cann.card import Tensors, arrays, item_bytes, up

_STATISTICS_WIDTH = (
    8  # softmax maxima and sums are Float32 [batch, heads, queries, 8], of packed sequences [tokens, heads, 8]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """``queries``, ``keys``: of a sequence; of packed ones (TND, ``is_packed``) all tokens. ``width``: of a head of
    query and key; ``value_width``: of value. ``layout``: BNSD, BSND, BSH, SBH or TND, as far as shapes tell it.
    ``size``: bytes of an element. ``is_masked``: there is a mask, so that some blocks may be skipped."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    layout: str
    size: int
    is_masked: bool

    @property
    def is_packed(self) -> bool:
        return self.layout == "TND"

    @property
    def query_elements(self) -> int:
        return self.batch * self.heads * self.queries * self.width

    @property
    def key_elements(self) -> int:
        return self.batch * self.key_heads * self.keys * self.width

    @property
    def value_elements(self) -> int:
        return self.batch * self.key_heads * self.keys * self.value_width

    @property
    def padded_width(self) -> int:
        """As aclnn pads it: to 16, above 196 to 128 (448 stays). 72 and 88 stay where rows of heads lie together and
        queries have as many heads as keys."""
        is_known = self.width in (72, 88) and self.value_width == self.width and self.heads == self.key_heads
        if is_known and self.layout in ("BSND", "BSH", "SBH"):
            return self.width
        return up(self.width, 16 if self.width < 196 or self.width == 448 else 128)


def heads(inputs: Tensors, outputs: Tensors) -> Heads | None:
    """None where the shapes do not tell them: dimensions that are not known, or no statistics."""
    statistics = _statistics([*outputs, *inputs])
    large = arrays(inputs)[:3]
    if not statistics or len(large) < 3 or min(min(tensor.shape) for tensor in large) <= 0:
        return None
    query, key, value = (tensor.shape for tensor in large)
    if len(statistics) == 3:
        if len(query) != 3:
            return None
        batch, heads_, queries, keys, key_heads, layout = 1, query[1], query[0], key[0], key[1], "TND"
        width, value_width = query[2], value[2]
    else:
        batch, heads_, queries, _ = statistics
        layout = _layout(query, batch, heads_, queries)
        if not layout:
            return None
        keys = key[layout.index("S")]
        width = query[-1] if "D" in layout else query[-1] // heads_
        key_heads = key[layout.index("N")] if "N" in layout else max(key[-1] // max(width, 1), 1)
        value_width = value[-1] if "D" in layout else value[-1] // key_heads
    return Heads(
        batch=batch,
        heads=heads_,
        key_heads=key_heads,
        queries=queries,
        keys=keys,
        width=width,
        value_width=value_width,
        layout=layout,
        size=item_bytes(large[0]),
        is_masked=any(tensor.dtype in ("UInt8", "Bool") for tensor in arrays(inputs)),
    )


def _layout(query: tuple[int, ...], batch: int, heads_: int, queries: int) -> str:
    """Where two fit, sizes are the same in both."""
    if len(query) == 4:
        return "BNSD" if query[1:3] == (heads_, queries) else "BSND" if query[1:3] == (queries, heads_) else ""
    if len(query) == 3 and heads_ > 0 and query[-1] % heads_ == 0:
        return "BSH" if query[:2] == (batch, queries) else "SBH" if query[:2] == (queries, batch) else ""
    return ""


def _statistics(tensors: Tensors) -> tuple[int, ...]:
    """The shape of the softmax maxima; () where there are none."""
    return next(
        (
            tensor.shape
            for tensor in tensors
            if tensor.dtype == "Float32"
            and len(tensor.shape) in (3, 4)
            and tensor.shape[-1] == _STATISTICS_WIDTH
            and min(tensor.shape) > 0
        ),
        (),
    )
