"""CLUSTERED: the primitives of which MindSpore makes one kernel (``jit_level: O1``), on Ascend, by release.

Documented for `--enable_cluster_ops` of MS_DEV_GRAPH_KERNEL_FLAGS (tutorial "Custom Fusion"), in the source
``graph_kernel_cluster_cloud.cc``: those of fusion_ops_level 0, without what is taken on demand only (MatMul,
BatchMatMul, GroupedMatmul, Reshape, TensorMove). Measured with MindSpore 2.9.0: with this list, `whatif/passes/cluster`
finds each cluster of six recorded runs, and no other.
"""

from __future__ import annotations

from swapconf.upstream.versions import release

_CLUSTERED: dict[tuple[int, ...], frozenset[str]] = {
    (2, 9): frozenset(
        {
            "Abs",
            "Add",
            "Assign",
            "BroadcastTo",
            "Cast",
            "Ceil",
            "Div",
            "Equal",
            "Exp",
            "Floor",
            "Greater",
            "GreaterEqual",
            "IsFinite",
            "Less",
            "LessEqual",
            "Log",
            "LogicalAnd",
            "LogicalNot",
            "LogicalOr",
            "Maximum",
            "Minimum",
            "Mul",
            "Neg",
            "NotEqual",
            "Pow",
            "RealDiv",
            "Reciprocal",
            "ReduceSum",
            "Rsqrt",
            "Select",
            "Sqrt",
            "Sub",
            "Transpose",
            "Trunc",
        }
    )
}


def clustered(mindspore: str) -> frozenset[str] | None:
    """None where it is not known of this release."""
    return _CLUSTERED.get((release(mindspore) or ())[:2])
