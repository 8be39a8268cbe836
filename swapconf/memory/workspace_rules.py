"""SIGNATURE -> WORKSPACE: bytes that a kernel asks for besides its tensors, by the rules of CANN's own tiling code.

The rules are the values of ``RULES``, listed in docs/reference/levels.md, and computed in `cann`, a module for each
family. They are those of an Atlas A2 (910B), by release of CANN (`card.Card`); a card of another generation needs
others. What shapes do not tell (flags of a transpose where axes are equally long, the kind of a mask, whether sums have
a fixed order) counts with the larger need, so that a size is what CANN asks for or more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from swapconf.memory.cann.attention import attention_bytes
from swapconf.memory.cann.attention_gradient import gradient_bytes
from swapconf.memory.cann.card import A2, FLOAT_BYTES, SYSTEM_BYTES, Card, Tensors, elements
from swapconf.memory.cann.composed import (
    add_bytes,
    elementwise_bytes,
    extreme_bytes,
    gather_bytes,
    gather_gradient_bytes,
    mixing_bytes,
    picking_bytes,
    scatter_bytes,
    sum_bytes,
    table_gradient_bytes,
    topk_bytes,
)
from swapconf.memory.cann.experts import system_bytes
from swapconf.memory.cann.norms import norm_bytes, norm_gradient_bytes
from swapconf.memory.cann.products import grouped_bytes, product_bytes
from swapconf.memory.workspace_experts import EXPERTS, MEGA
from swapconf.memory.workspace_family import Family
from swapconf.trace.trace import element_bits
from swapconf.trace.work import COLLECTIVES, COMMUNICATING, COPY, FLASH, FLASH_GRAD, GROUPED, MATRIX, VIEWS
from swapconf.trace.workspace import Basis, Rule

NONE = frozenset({*VIEWS, *COLLECTIVES, COPY, "GetNext", "StreamRecv", "StreamSend"})
ELEMENTWISE = frozenset(
    {
        *("Abs", "AddN", "Addcmul", "Assign", "Cast", "Ceil", "Cos", "Div"),
        *("DivMod", "Divs", "Equal", "Exp", "Floor", "FloorDiv", "FmodScalar", "Greater", "GreaterEqual", "IsFinite"),
        *("Less", "LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Muls"),
        *("Neg", "NotEqual", "Pow", "ReLU", "RealDiv", "Reciprocal", "Rsqrt", "SiLU", "SiLUGrad", "Sigmoid"),
        *("SigmoidGrad", "Sin", "Sqrt", "Square", "Sub", "SubExt", "Tanh", "TensorMove"),
    }
)
_COLLECTIVE = "(?:AllGather|AllReduce|ReduceScatter|All[tT]oAll)"
_SEVERAL = re.compile(rf"Moe|Mega|FFN|Ffn|Atten|^Custom|^Nsa|^Mla|Indexer|{_COLLECTIVE}\w*Mat|Mat\w*{_COLLECTIVE}")
MIXING = frozenset({"Add", "AddExt", "Mul"})  # of 16 and of 32 bits at once
SUMS = frozenset({"MeanExt", "ReduceMean", "ReduceSum", "SumExt"})
EXTREMES = frozenset({"ArgMaxWithValue", "ArgMinWithValue", "MaxDim", "MinDim", "ReduceMax", "ReduceMin"})
REDUCTIONS = frozenset(
    {
        "BiasAddGrad",
        "LayerNormGrad",
        "LayerNormGradExt",
        "LogSoftmax",
        "LogSoftmaxGrad",
        "ReduceAll",
        "Softmax",
        "SoftmaxBackward",
    }
)


def _reduction(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    narrow = [elements(tensor) for tensor in inputs if element_bits(tensor.dtype) == 16]
    return SYSTEM_BYTES + max(narrow, default=0) * FLOAT_BYTES


_OTHER, _FUSED = "other", "fused"
_ELEMENTWISE = Rule(
    name="element-wise",
    operators="Add, Cast, Exp, Mul, Sigmoid, TensorMove, ...",
    basis=Basis.PUBLIC,
    formula="nothing; of numbers of several types, a copy of the others in the widest, except of 16-bit floats that "
    "are added to such of 32 bits, or multiplied by them",
    source="ops-math/math/add/op_api/aclnn_add.cpp:310, math/mul/op_api/aclnn_mul.cpp:356 (kernels that mix 16 and "
    "32 bits; else casts before the kernel, which has no workspace). Tested on: Cast, Exp, Mul of [4096, 129280] (0)",
)
_FAMILIES = (
    Family(
        Rule(
            name="flash",
            operators=FLASH,
            basis=Basis.PUBLIC,
            formula="16 MiB + by template. More than 1,024 keys: 48 cores x (2 x keys at once x rows x 128 + 4 x "
            "rows x head) x 4 bytes, with 8 blocks of 128 keys at once, rows 128 (64 where there are fewer blocks "
            "than cores), 3 x where the keys are no multiple of 64, 4 x of 32-bit input. A head of 129 to 195, of 96 "
            "or no multiple of 16 (or of 64 with ragged keys): 24 cores x (3 x 8 x 256 x 128 + 4 x 256 x width of "
            "value) x 4 bytes. Up to 1,024 keys, and packed sequences (TND): templates of their own; copies to "
            "another width of head; a mask of dropout in bytes where the keys are no multiple of 8",
            source="ops-transformer/attention/flash_attention_score/op_host/"
            "flash_attention_score_tiling_general.cpp:2714 (S1Bn2gs1), :3001 (B), :3246 (S1s2Bn2gs1), :3537 "
            "(SameAB), :3850 (VarLen); op_api/aclnn_flash_attention_score.cpp:462. Tested on: B1 N64 S4096 D128 (76 "
            "MiB, to the byte); B1 N8 S4096 D192 (91 MiB measured, to the byte what 20 cores take, which its report "
            "does not tell; 106 with 24)",
        ),
        frozenset({FLASH}),
        attention_bytes,
    ),
    Family(
        Rule(
            name="flash gradient",
            operators=FLASH_GRAD,
            basis=Basis.PUBLIC,
            formula="20 MiB + 64 KiB + (query + key + value) x 4 bytes + statistics + 48 cores x 512 x 512 x 8 "
            "bytes; where sums have a fixed order 24 cores x 512 x (2 x head + width of value) x 8 bytes more, which "
            "counts unless it is known that they have none. Below 1,024 keys and queries: 32 MiB + 48 cores x "
            "131,072 x 16 bytes + (query + key + value) x 4 bytes, if more. 32-bit input and packed sequences: "
            "templates of their own; copies, a mask of dropout as above",
            source="ops-transformer/attention/flash_attention_score_grad/op_host/"
            "flash_attention_score_grad_tiling_s1s2_bn2gs1s2_sab.cpp:1418, _s1s2_bn2gs1s2.cpp:1374, "
            "_s1s2_bn2.cpp:1533, _s1s2_bn2gs1s2_basic.cpp:299; op_api/aclnn_flash_attention_score_grad.cpp:352. "
            "Tested on: B1 N8 S4096 D192 (230.06 MiB measured; 243.06 here. It is what 20 cores, a fixed order and a "
            "copy of one tensor take, none of which its report tells)",
        ),
        frozenset({FLASH_GRAD}),
        gradient_bytes,
    ),
    Family(
        Rule(
            name="product",
            operators="MatMul, BatchMatMul, Dense, ...",
            basis=Basis.PUBLIC,
            formula="20 MiB + a copy of each matrix whose inner axis is no multiple of 256 bytes (and no even small "
            "one) or longer than 65,535 + m x n x 4 bytes where k is split (from 27,392 on, by shape, or by a table of "
            "tuned shapes). If an inner axis is longer than 65,535 and k is not the longest axis by twice, both are "
            "copied, and from CANN 9.0 on the result only where n is no multiple of 256 (before: always). Where "
            "shapes fit several transposes, the largest",
            source="ops-nn/matmul/mat_mul_v3/op_host/op_tiling/matmul_v3_base_tiling.cpp:505-575 (copies), "
            ":2324-2465 and :2536-2730 (parts of k), :2812-2917 (sizes), :959 (tuned shapes); "
            "ops-nn/matmul/common/op_host/op_api/matmul_util.cpp:120, :259, :1988, :2099 (which layout); "
            "batch_mat_mul_v3_base_tiling.cpp:816, :1323. Tested on: 20 shapes of lm_head's gradients (N 1024 to "
            "8192, V 16160 to 129280, H 1792 to 5120) and its forward, to the byte",
        ),
        MATRIX,
        product_bytes,
    ),
    Family(
        Rule(
            name="grouped product",
            operators="GroupedMatmul, ...",
            basis=Basis.PUBLIC,
            formula="16 MiB; with weights of 8 bits or less 16 x 256 x 256 bytes for each of 24 cores more",
            source="ops-transformer/gmm/grouped_matmul/op_host/op_tiling/grouped_matmul_tiling.cpp:564, :669",
        ),
        GROUPED,
        grouped_bytes,
    ),
    Family(
        Rule(
            name="norm",
            operators="RmsNorm, AddRmsNorm",
            basis=Basis.PUBLIC,
            formula="16 MiB + 256 bytes",
            source="ops-nn/norm/rms_norm/op_host/rms_norm_tiling.cpp:315, add_rms_norm_tiling.cpp:443. Tested on: "
            "[4096, 4096] (16 MiB)",
        ),
        frozenset({"AddRmsNorm", "RmsNorm"}),
        norm_bytes,
    ),
    Family(
        Rule(
            name="norm gradient",
            operators="RmsNormGrad",
            basis=Basis.PUBLIC,
            formula="16 MiB + 32 bytes for each core with rows (up to 48); where sums have a fixed order (columns + "
            "8) x 4 bytes for each, which counts unless it is known that they have none",
            source="ops-nn/norm/rms_norm_grad/op_host/rms_norm_grad_tiling.cpp:420-434. Tested on: [4096, 4096] "
            "without a fixed order (16 MiB + 1,536 bytes, to the byte)",
        ),
        frozenset({"RmsNormGrad"}),
        norm_gradient_bytes,
    ),
    Family(
        Rule(
            name="gather",
            operators="GatherD",
            basis=Basis.PUBLIC,
            formula="16 MiB + index x 4 bytes; along another axis than the last a copy of table, index and result",
            source="ops-nn/index/gather_elements_v2/op_host/op_api/aclnn_gather.cpp:330-350, "
            "gather_elements_v2_tiling.cpp:270. Tested on: [4096, 129280] by [4096, 1] (16.017 MiB)",
        ),
        frozenset({"GatherD"}),
        gather_bytes,
    ),
    Family(
        Rule(
            name="scatter",
            operators="ScatterAddExt, InplaceScatterAdd, InplaceScatterSrc, ...",
            basis=Basis.PUBLIC,
            formula="16 MiB + index x 4 bytes; along another axis than the last a copy of table, index and source, "
            "and of the result",
            source="ops-nn/index/scatter_elements_v2/op_api/aclnn_scatter.cpp:733-760, "
            "op_host/arch22/scatter_elements_v2_tiling.cpp:622. Tested on: [4096, 129280] by [4096, 1] (16,795,136 "
            "bytes, to the byte)",
        ),
        frozenset({"InplaceScatterAdd", "InplaceScatterSrc", "Scatter", "ScatterAddExt"}),
        scatter_bytes,
    ),
    Family(
        Rule(
            name="gather gradient",
            operators="GatherDGradV2",
            basis=Basis.PUBLIC,
            formula="16 MiB + table x 4 bytes + index x 12 bytes",
            source="ops-nn/index/scatter_elements_v2/op_api/aclnn_scatter.cpp:797 for the scattering; that table, "
            "gradient and index are held in 32, 32 and 64 bits is read off the measurement. Tested on: table "
            "[129280, 4096] by [4096, 4096] (2,336,230,400 bytes, to the byte)",
        ),
        frozenset({"GatherDGradV2"}),
        gather_gradient_bytes,
    ),
    Family(
        Rule(
            name="table gradient",
            operators="EmbeddingDenseBackward, InplaceIndexAddExt",
            basis=Basis.PUBLIC,
            formula="16 MiB + (table + source) x 4 bytes + index x 16 bytes: every tensor in between counts, "
            "whichever way is taken; of rows of up to 512 in 16 bits, table x 6",
            source="ops-nn/index/embedding_dense_grad_v2/op_api/aclnn_embedding_dense_backward.cpp:300-410, "
            "ops-nn/index/inplace_scatter_add/op_host/op_api/aclnn_index_add.cpp; not measured",
        ),
        frozenset({"EmbeddingDenseBackward", "InplaceIndexAddExt"}),
        table_gradient_bytes,
    ),
    Family(
        Rule(
            name="add in place",
            operators="InplaceAddExt, AssignAdd, AssignSub",
            basis=Basis.PUBLIC,
            formula="a copy of what is added (if it does not lie in one piece, which is not told), for AssignAdd and "
            "AssignSub as a bound from above",
            source="ops-math/math/add/op_api/aclnn_add.cpp:664, which copies what does not lie in one piece; that it "
            "was so is read off the measurement. Tested on: [129280, 4096] + 16 bits of it (1,059,064,320 bytes, to "
            "the byte)",
        ),
        frozenset({"AssignAdd", "AssignSub", "InplaceAddExt"}),
        add_bytes,
    ),
    Family(
        Rule(
            name="top k",
            operators="TopkExt, TopK",
            basis=Basis.PUBLIC,
            formula="places x 4 bytes; below 8 of a row, 16 MiB and 32 places and values of each row more; along "
            "another axis than the last a copy of the table, and what is found twice",
            source="ops-nn/index/gather_elements/op_api/aclnn_topk.cpp:657-855. Tested on: 512 of [4096, 2048] "
            "(8.002 MiB)",
        ),
        frozenset({"TopK", "TopkExt"}),
        topk_bytes,
    ),
    *EXPERTS,
    Family(
        Rule(
            name="sum",
            operators="ReduceSum, SumExt, ReduceMean, MeanExt",
            basis=Basis.PUBLIC,
            formula="1 KiB; of input of another type than the result a copy in that, of less than 32 bits in 32 bits",
            source="ops-math/math/reduce_sum/op_api/aclnn_reduce_sum.cpp:200 (the copy is a bound: 16 bits are "
            "summed as they are where the result has as many). Tested on: [4096, 129280] in 32 bits (0.0015 MiB)",
        ),
        SUMS,
        sum_bytes,
    ),
    Family(
        Rule(
            name="extreme",
            operators="ReduceMax, ReduceMin, ArgMaxWithValue, ...",
            basis=Basis.PUBLIC,
            formula="result x 4 bytes; of flags, a copy in 32 bits",
            source="ops-math/math/arg_max_with_value/op_api/aclnn_max_dim.cpp:123. Tested on: [4096, 129280] in 32 "
            "bits (0.0166 MiB)",
        ),
        EXTREMES,
        extreme_bytes,
    ),
    Family(_ELEMENTWISE, MIXING, mixing_bytes),
    Family(_ELEMENTWISE, frozenset({"Select"}), picking_bytes),
    Family(_ELEMENTWISE, ELEMENTWISE, elementwise_bytes),
    Family(
        Rule(
            name="reduction",
            operators="Softmax, LogSoftmax, LayerNormGrad, BiasAddGrad, ...",
            basis=Basis.ASSUMED,
            formula="at most 16 MiB + a copy of the largest input in 32 bits, where it has 16",
            source="no public source; a bound from above: they sum up in 32 bits",
        ),
        REDUCTIONS,
        _reduction,
    ),
    Family(
        Rule(
            name=_FUSED,
            operators="other kernels that are several in one: Custom, MegaMoe of CANN, DispatchFFNCombine, "
            "FusedInferAttentionScore, other names with Moe, Mega, FFN, Attention, or a product and a collective",
            basis=Basis.UNKNOWN,
            formula="not known: 16 MiB, the least, count, and the output names them",
            source="what is public depends on what shapes do not tell, as the rows that a card may receive: "
            "ops-transformer/mc2/mega_moe/op_host/op_tiling/arch22/mega_moe_tiling_arch22.cpp:1236-1276",
        ),
        frozenset(),
        system_bytes,
    ),
    Family(
        Rule(
            name=_OTHER,
            operators="every other kernel that computes",
            basis=Basis.ASSUMED,
            formula="at most 16 MiB",
            source="no public source; a bound from above for kernels that keep nothing in between: the 16 MiB of "
            "GetLibApiWorkSpaceSize",
        ),
        frozenset(),
        system_bytes,
    ),
)
RULES: Mapping[str, Rule] = {family.rule.name: family.rule for family in _FAMILIES}
_BY_PRIMITIVE = {primitive: family for family in _FAMILIES for primitive in family.primitives}
_BY_RULE = {family.rule.name: family for family in _FAMILIES}


def workspace_bytes(primitive: str, inputs: Tensors, outputs: Tensors, card: Card = A2) -> tuple[str, int]:
    """(name of the rule, bytes) for a kernel; ("", 0) for what needs none: a view, a copy, a collective, whose buffers
    are HCCL's own. Sizes that are not known before it runs count as nothing. Of a rule whose basis is `Basis.UNKNOWN`
    it is the least."""
    if needs_none(primitive):
        return "", 0
    family = _family(primitive, inputs)
    return family.rule.name, family.formula(inputs, outputs, card)


def needs_none(primitive: str) -> bool:
    return primitive in NONE or primitive.startswith(COMMUNICATING)


def is_fused(primitive: str) -> bool:
    """Whether it does the work of several kernels, so that it may keep whole tensors in between; by its name."""
    return not needs_none(primitive) and _SEVERAL.search(primitive) is not None


def _family(primitive: str, inputs: Tensors) -> Family:
    """CANN has an operator of its own that is called as that of hyper-parallel; its first input is a context, which
    holds integers."""
    if primitive in MEGA and inputs and "Int" in inputs[0].dtype:
        return _BY_RULE[_FUSED]
    known = _BY_PRIMITIVE.get(primitive)
    return known or _BY_RULE[_FUSED if is_fused(primitive) else _OTHER]
