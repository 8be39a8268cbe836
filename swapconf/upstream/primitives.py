"""PRIMITIVES of MindSpore by what they do to memory, by the names that graphs and traces give them (2.9.0)."""

from __future__ import annotations

VIEWS = frozenset({"ExpandDims", "Flatten", "Reshape", "Squeeze", "TransposeExtView", "View"})  # write what they read
RESHAPE = "Reshape"
COPY = "MoveTo"  # between device and host
WRITE_BACK = "MoveAssign"  # to the host, of what an optimizer with `swap` has updated
HOST_COPIES = frozenset({COPY, WRITE_BACK})
MOVE = "TensorMove"  # on the device: a parameter, or a token that passes wait for, is kept as it is
NORM = "RmsNorm"
CAST = "Cast"
PRODUCT = "Mul"  # of each number of one by that of another
FUSED_LEVEL = "O1"  # the jit_level at which MindSpore makes one kernel of several primitives
MAKE_SEVERAL = frozenset({"FlashAttentionScore", NORM})  # tensors, of which their gradient reads more than the first

_EXTENDED = {"AddExt": "Add", "SubExt": "Sub", "StackExt": "Stack", "SumExt": "ReduceSum", "DropoutExt": "Dropout"}


def plain(primitive: str) -> str:
    """One name for an operation that the graph of a layer and the executed one call differently."""
    return _EXTENDED.get(primitive, primitive)
