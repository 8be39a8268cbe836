"""SIGNATURE -> WORKSPACE: bytes that a kernel asks for besides its tensors, by formulas that CANN's sources tell.

On an Atlas A2 every kernel of Ascend C that needs workspace at all gets 16 MiB for the system first
(``WORKSPACE_SIZE_910B`` of platform_ascendc, ``GetLibApiWorkSpaceSize``); products of matrices ask for 20 MiB. What
comes on top is for the vector cores, of which the tilings know 48 at most. The rules are
the values of ``RULES``, listed in docs/reference/levels.md. A card of another generation needs other formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from swapconf.trace.trace import Tensor, element_bits
from swapconf.trace.work import COLLECTIVES, COPY, FLASH, FLASH_GRAD, GROUPED, MATRIX, VIEWS
from swapconf.trace.workspace import Basis, Rule
from swapconf.words.units import MIB

Tensors = Sequence[Tensor]
SYSTEM_BYTES, PRODUCT_BYTES = 16 * MIB, 20 * MIB
VECTOR_CORES = 48
_FLOAT_BYTES = 4
_BLOCK, _BLOCKS_AT_ONCE = 128, 8  # rows and columns of a block of scores, and how many a core holds (nRatio)
_GRADIENT_BLOCK = 128 * 64  # INITIAL_S1_SPLIT_NUM x INITIAL_S2_SPLIT_NUM
_SMALL_HEAD = 64
_ROW_PADDING = 32
_STATISTICS_WIDTH = 8  # softmax maxima and sums are Float32 [batch, heads, sequence, 8]

NONE = frozenset({*VIEWS, *COLLECTIVES, COPY, "GetNext", "StreamRecv", "StreamSend"})
REDUCTIONS = frozenset(
    {
        "BiasAddGrad",
        "LayerNormGrad",
        "LayerNormGradExt",
        "LogSoftmax",
        "LogSoftmaxGrad",
        "ReduceAll",
        "ReduceMax",
        "ReduceMean",
        "ReduceSum",
        "Softmax",
        "SoftmaxBackward",
        "SumExt",
    }
)

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            name="flash",
            operators=FLASH,
            basis=Basis.PUBLIC,
            formula="16 MiB + 48 cores x (stages x 8 x 128 x 128 + widths x 128 x head) x 4 bytes; 2 stages, 3 if the "
            "sequence is no multiple of 64, 4 for 32-bit input; 4 widths, 2 up to a head of 64",
            source="FlashAttentionScoreTilingS1s2Bn2gs1::GetWorkspaceSize, flash_attention_score_tiling_general.cpp of "
            "cann/ops-transformer (nRatio 8; blocks of 64 x 128 or 128 x 128, of which the larger is taken here). "
            "It is used for more than 1,024 keys; for fewer, another template has a formula of its own",
        ),
        Rule(
            name="flash gradient",
            operators=FLASH_GRAD,
            basis=Basis.PUBLIC,
            formula="20 MiB + 16 KiB + (query + key + value) x 4 bytes + 48 cores x ratio x 8192 x (2 x 4 + 4 x input) "
            "bytes; ratio 8, 16 for a head of 64",
            source="FlashAttentionScoreGradTilingS1s2Bn2gs1s2::GetWorkspaceSize, "
            "flash_attention_score_grad_tiling_s1s2_bn2gs1s2.cpp of cann/ops-transformer, the largest of its "
            "templates' blocks (128 x 64)",
        ),
        Rule(
            name="product",
            operators="MatMul, BatchMatMul, Dense, ...",
            basis=Basis.PUBLIC,
            formula="20 MiB",
            source="RPC_WORKSIZE of matmul_v3_common.h, GetWorkspaceSize of matmul_v3_base_tiling_advanced.h in "
            "cann/ops-nn; an A2 takes it where a matrix has to change its layout, and then a copy of it more, "
            "which is not counted",
        ),
        Rule(
            name="grouped product",
            operators="GroupedMatmul, ...",
            basis=Basis.PUBLIC,
            formula="20 MiB + 24 cores x 4 x 256 x 128 x 4 bytes",
            source="GroupedMatmulFinalizeRoutingBaseTiling of cann/ops-transformer (RPC_WORKSIZE, CV_PARALL_NUM), of "
            "the same family",
        ),
        Rule(
            name="norm gradient",
            operators="RmsNormGrad",
            basis=Basis.PUBLIC,
            formula="16 MiB + 48 cores x (columns + 32) x 4 bytes, as for a deterministic run",
            source="SetTilingDataAndWorkspace, rms_norm_grad_tiling.cpp of cann/ops-nn",
        ),
        Rule(
            name="reduction",
            operators="ReduceSum, SumExt, Softmax, LayerNormGrad, ...",
            basis=Basis.ASSUMED,
            formula="16 MiB + a copy of the largest input in 32 bits, where it has 16",
            source="no public source; they sum up in 32 bits",
        ),
        Rule(
            name="other",
            operators="every other kernel that computes",
            basis=Basis.ASSUMED,
            formula="16 MiB",
            source="no public source; the 16 MiB of GetLibApiWorkSpaceSize",
        ),
    )
}


def workspace_bytes(primitive: str, inputs: Tensors, outputs: Tensors) -> tuple[str, int]:
    """(name of the rule, bytes) for a kernel; ("", 0) for what needs none: a view, a copy, a collective, whose buffers
    are HCCL's own. Sizes that are not known before it runs count as nothing."""
    if primitive in NONE:
        return "", 0
    name = _NAMES.get(primitive) or ("reduction" if primitive in REDUCTIONS else "other")
    return name, _FORMULAS[name](inputs, outputs)


def _flash(inputs: Tensors, outputs: Tensors) -> int:
    head, statistics = _head(inputs, outputs), _statistics(inputs, outputs)
    is_small = 0 < head <= _SMALL_HEAD
    is_even = len(statistics) == 4 and statistics[2] % 64 == 0  # as many keys as queries
    stages = 4 if inputs and element_bits(inputs[0].dtype) == 32 else 2 if is_even else 3
    a_core = stages * _BLOCKS_AT_ONCE * _BLOCK * _BLOCK + (2 if is_small else 4) * _BLOCK * -(-head // 16) * 16
    return SYSTEM_BYTES + VECTOR_CORES * a_core * _FLOAT_BYTES


def _flash_gradient(inputs: Tensors, outputs: Tensors) -> int:
    ratio = 16 if _head(inputs, outputs) == _SMALL_HEAD else 8
    element_bytes = (element_bits(inputs[0].dtype) or 32) // 8 if inputs else _FLOAT_BYTES
    scores = VECTOR_CORES * ratio * _GRADIENT_BLOCK * (2 * _FLOAT_BYTES + 4 * element_bytes)
    sums = sum(map(elements, inputs[:3])) * _FLOAT_BYTES
    return PRODUCT_BYTES + 16 * 1024 + sums + scores


def _norm_gradient(inputs: Tensors, outputs: Tensors) -> int:
    columns = next((tensor.shape[-1] for tensor in inputs if len(tensor.shape) > 1), 0)
    return SYSTEM_BYTES + VECTOR_CORES * (max(columns, 0) + _ROW_PADDING) * _FLOAT_BYTES


def _reduction(inputs: Tensors, outputs: Tensors) -> int:
    narrow = [elements(tensor) for tensor in inputs if element_bits(tensor.dtype) == 16]
    return SYSTEM_BYTES + max(narrow, default=0) * _FLOAT_BYTES


def elements(tensor: Tensor) -> int:
    """How many; 0 where a dimension is not known."""
    return prod(tensor.shape) if min(tensor.shape, default=0) >= 0 else 0


def _head(inputs: Tensors, outputs: Tensors) -> int:
    """The width of a head of attention: the last dimension, or in BSH and SBH its part for one of the heads."""
    width = inputs[0].shape[-1] if inputs and inputs[0].shape else 0
    if not inputs or len(inputs[0].shape) != 3:
        return max(width, 0)
    statistics = _statistics(inputs, outputs)
    return width // statistics[1] if len(statistics) == 4 and statistics[1] > 0 else _BLOCK


def _statistics(inputs: Tensors, outputs: Tensors) -> tuple[int, ...]:
    """The shape of the softmax maxima, [batch, heads, sequence, 8]; () where there are none."""
    return next(
        (
            tensor.shape
            for tensor in (*outputs, *inputs)
            if tensor.dtype == "Float32" and len(tensor.shape) == 4 and tensor.shape[-1] == _STATISTICS_WIDTH
        ),
        (),
    )


_NAMES = {
    FLASH: "flash",
    FLASH_GRAD: "flash gradient",
    "RmsNormGrad": "norm gradient",
    **dict.fromkeys(MATRIX, "product"),
    **dict.fromkeys(GROUPED, "grouped product"),
}
_FORMULAS: Mapping[str, Callable[[Tensors, Tensors], int]] = {
    "flash": _flash,
    "flash gradient": _flash_gradient,
    "product": lambda inputs, outputs: PRODUCT_BYTES,
    "grouped product": lambda inputs, outputs: PRODUCT_BYTES + 24 * 4 * 256 * 128 * _FLOAT_BYTES,
    "norm gradient": _norm_gradient,
    "reduction": _reduction,
    "other": lambda inputs, outputs: SYSTEM_BYTES,
}
