"""DEVICE KERNELS: what CANN calls the kernel that a primitive of MindSpore launches, as profilers write it.

Most are called alike, but for what the device adds: ``MatMulV3`` is ``MatMul``, ``hcom_allReduce_`` is ``AllReduce``,
``aclnnAdd`` is ``Add``. The others stand in a table.

Source: names of rows in public profiles, which tell function, kernel and type (``aclnnMuls_MulAiCore_Mul``):
github.com/Ascend/msinsight (4e16fca1), test/st/level2 and test/data/pytorch/text, CANN 8.3.RC1 and older; for ``Swish``
and ``ReduceMean`` rows that are quoted in public reports (``aclnnSilu_SiluAiCore_Swish``,
``aclnnMean_ReduceMeanAiCore_ReduceMean``). MindSpore calls the functions that torch_npu calls; its primitives carry
their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LAUNCH = re.compile(r"/(\w+)-op\d+$")
_BETWEEN_STAGES = frozenset({"batchisendirecv", "batchsendrecv", "irecv", "isend", "receive", "recv", "send"})
_DECORATION = re.compile(r"^(?:hcom_?|aclnn|inner_?)|(?:v\d+|_+)$")
# by the kernel's type, primitives and types that are that kernel; `D` ended the types whose shapes were compiled in
_CALLED_OTHERWISE: Mapping[str, str] = {
    "Add": "AddExt Adds AddScalar InplaceAddExt AssignAdd",
    "ApplyAdamW": "AdamW",
    "BatchMatMul": "BatchMatMulExt Bmm",
    "ConcatD": "Concat Cat",
    "EmbeddingDenseGrad": "EmbeddingDenseBackward",
    "Gather": "Embedding",
    "GatherElements": "GatherD",
    "LayerNorm": "LayerNormExt",
    "LayerNormGrad": "LayerNormGradExt",
    "MatMul": "MatMulExt Dense Mm",
    "Mul": "Muls InplaceMul",
    "OnesLike": "OnesLikeExt",
    "Pows": "Pow PowTensorScalar",
    "RealDiv": "Div Divs",
    "ReduceMean": "MeanExt ReduceMeanD",
    "ReduceSum": "SumExt ReduceSumD",
    "Softmax": "SoftmaxExt",
    "Sort": "SortExt",
    "StridedSlice": "StridedSliceD",
    "Sub": "SubExt Subs SubScalar",
    "Swish": "SiLU",
    "SwishGrad": "SiLUGrad",
    "TensorMove": "Assign InplaceCopy",
    "TopK": "TopkExt",
    "Transpose": "TransposeD TransposeExt",
    "ZerosLike": "ZerosLikeExt InplaceZero",
}


def plain(name: str) -> str:
    """The name of a type without decoration, in small letters."""
    text = name.lower()
    while (shorter := _DECORATION.sub("", text)) != text and shorter:
        text = shorter
    return text


_KERNEL = {
    plain(name): plain(kernel) for kernel, names in _CALLED_OTHERWISE.items() for name in (kernel, *names.split())
}


def kernel_of(name: str) -> str:
    """One name for a kernel, whether a primitive, a function or a type of the device is given."""
    known = plain(name)
    return _KERNEL.get(known, known)


def is_between_stages(name: str) -> bool:
    """Whether a type, or a kernel of MindSpore, is a message between two ranks: what it takes beyond the shortest of
    its kind is waiting for the other one."""
    return plain(primitive_of_launch(name) or name) in _BETWEEN_STAGES


def primitive_of_launch(name: str) -> str:
    """That of ``Default/network/MatMul-op12``; "" where none is told."""
    found = _LAUNCH.search(name)
    return found[1] if found else ""
