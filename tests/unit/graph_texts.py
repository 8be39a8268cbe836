"""A graph as MindSpore prints it: shortened from one of MindSpore 2.9.0, with what its readers may stumble over."""

from __future__ import annotations

from collections.abc import Mapping

HEAD = """\
# IR entry: @kernel_graph0
# Total subgraphs: 1

# Attrs:
is_ref_graph: 1

# Total params: 2
# Params:
%para1_weight: <Ref[Tensor[Float32]], (64, 256), ref_key=weight, is_parameter>  :  has_default  :  IsWeight: true

Node counting information:
Total number of nodes: 20
Total number of cnodes: {count}

subgraph attr:
is_ref_graph: 1
subgraph instance: kernel_graph0 : 0x1
"""
# as (a line of a node, its name); the constant of %1 is broken
NODES = (
    (
        "  %0(equiv_60_CNode_275) = Load(%para1_weight, UMonad[U]) primitive_attrs: {visited: Bool(1)}",
        "Default/Load-op0",
    ),
    (
        '  %1(equiv_7_tensor) = PrimFunc_Concat(%0, Tensor(shape=[1, 1], dtype=Int32, value=\n[[0]]), "a, (b", I64(-1))'
        " {instance name: concat_2d} primitive_attrs: {dyn_input_sizes: (2, -1)} cnode_attrs: {is_dynamic_len: Bool(0)}"
        ' cnode_primal_attrs: {forward_comm_node_unique_id: "5", unique_id: "316892"}',
        "Default/network/layers/0-Layer/Concat-op0",
    ),
    (
        '  %2(real_grad) = AllReduce(%1) {instance name: grad_mirror} primitive_attrs: {group: "hccl_world_group",'
        ' fusion: I64(4), op: "sum"} cnode_primal_attrs: {forward_unique_id: "129800", mirror_user_id: "weight"}',
        "Default/AllReduce-op0",
    ),
    ('  %3(CNode_1) = AllGather(%1) primitive_attrs: {group: "1-2", fusion: I64(0)}', "Default/AllGather-op0"),
    ("  %4(CNode_2) = MakeTuple(%2, %3, None) primitive_attrs: {visited: Bool(1)}", ""),
    ("  %5(CNode_3) = TupleGetItem(%4, I64(1)) primitive_attrs: {visited: Bool(1)}", "Default/TupleGetItem-op0"),
    ("  Return(%5) primitive_attrs: {visited: Bool(1)}", "Default/Return-op0"),
)
LINES = (
    "      : (<Tensor[Float32], (1, 1), value=...>, <Int64, NoShape>) -> (<Tensor[Float32], (1, 1024)>)",
    "      : (<Float32xDefaultFormat[const vector]{1, 1}>) -> (<Float32xDefaultFormat[const vector]{1, 1024}>)",
)
TAIL = "# Order:\n#   1: @kernel_graph0:CNode_1747{[0]: ValueNode<Primitive> Return, [1]: CNode_1746}\n\n\n"


SOURCE = (
    "      # In file site-packages/mindformers/parallel_core/router.py:427~437, 4~58/    def construct(self, inputs):/",
    "      # In file lib/mindspore/ops/auto_generate/gen_ops_def.py:8832, 11~32/    return cast_op(input, dtype)/",
)


def printed(
    nodes: tuple[tuple[str, str], ...] = NODES,
    *,
    count: int | None = None,
    graphs: int = 1,
    sources: Mapping[int, tuple[str, ...]] | None = None,
) -> str:
    """The whole text. ``count``: of nodes, as the text tells it. ``sources``: by node, of `SOURCE`."""
    told = (
        "\n".join(
            (
                line,
                *LINES,
                *([f"      # Fullname with scope: ({name})"] if name else []),
                *(sources or {}).get(number, ()),
            )
        )
        for number, (line, name) in enumerate(nodes)
    )
    graph = "\n".join(("subgraph @kernel_graph0() {", *told, "}\n"))
    return HEAD.format(count=len(nodes) if count is None else count) + "\n" + graph * graphs + TAIL


def func_graphs(*graphs: tuple[str, tuple[tuple[str, str, str], ...]]) -> str:
    """Graphs by their heads, the first one the entry; nodes as (line, types, name)."""
    entry = graphs[0][0].split()[0].partition("(")[0]
    told = [f"# IR entry: @{entry}", f"# Total subgraphs: {len(graphs)}", ""]
    for head, nodes in graphs:
        told += ["subgraph attr:", "IsFeatureMapOutput: 1", f"subgraph instance: {head} : 0x1", f"subgraph @{head} {{"]
        for line, types, name in nodes:
            told += [line, f"      : {types}", f"      # Fullname with scope: ({name})"]
        told += ["}", ""]
    return "\n".join(told) + "\n"


F32, BF16 = "<Tensor[Float32], (8, 4)>", "<Tensor[BFloat16], (8, 4)>"
_CELL = "Default/network-N/layers-CellList/0-Layer/mlp-Mlp"
_CALL = "  %0(CNode_1) = call @{}(%para1_x, %para2_w)"
_RETURN = ("  Return(%0)", f"({BF16})", "Default/Return-op9")
_AROUND = ("kernel_graph0 parent: [subgraph @kernel_graph7](%para1_x, %para2_w)", "kernel_graph7()")
# SiLU and a product, fused; behind simplification they are made anew, in Float32, and have lost their cells
CLUSTERED = func_graphs(
    (
        _AROUND[0],
        ((_CALL.format("a_1"), f"({BF16}, {BF16}) -> ({BF16})", "Default/GraphKernel_Mul_fusion-op2"), _RETURN),
    ),
    (
        "a_1(%para3_Parameter_1, %para4_Parameter_2)",
        (
            (
                '  %0(CNode_2) = PrimFunc_Exp(%para3_Parameter_1) cnode_attrs: {expand_from: "SiLU"}',
                f"({BF16}) -> ({BF16})",
                f"{_CELL}/act-A/expand_SiLU/Exp-op1",
            ),
            (
                '  %1(CNode_3) = PrimFunc_Div(%para3_Parameter_1, %0) cnode_attrs: {expand_from: "SiLU"}',
                f"({BF16}, {BF16}) -> ({BF16})",
                f"{_CELL}/act-A/expand_SiLU/Div-op1",
            ),
            (
                "  %2(CNode_4) = PrimFunc_Mul(%1, %para4_Parameter_2)",
                f"({BF16}, {BF16}) -> ({BF16})",
                f"{_CELL}/Mul-op3",
            ),
            ("  Return(%2)", f"({BF16})", "Default/Return-op1"),
        ),
    ),
    (_AROUND[1], ()),
)
SPLIT = func_graphs(
    (
        _AROUND[0],
        ((_CALL.format("b_1"), f"({BF16}, {BF16}) -> ({BF16})", "Default/GraphKernel_Mul_fusion-op4"), _RETURN),
    ),
    (
        "b_1(%para3_Parameter_1, %para4_Parameter_2)",
        (
            (
                "  %0(CNode_1) = PrimFunc_Cast(%para3_Parameter_1, I64(43))",
                f"({BF16}, <Int64, NoShape>) -> ({F32})",
                "Default/Cast-op7",
            ),
            (
                '  %1(CNode_2) = PrimFunc_Exp(%0) cnode_attrs: {expand_from: "SiLU"}',
                f"({F32}) -> ({F32})",
                "Default/Exp-op7",
            ),
            (
                '  %2(CNode_3) = PrimFunc_Div(%0, %1) cnode_attrs: {expand_from: "SiLU"}',
                f"({F32}, {F32}) -> ({F32})",
                "Default/Div-op7",
            ),
            (
                "  %3(CNode_4) = PrimFunc_Cast(%para4_Parameter_2, I64(43))",
                f"({BF16}, <Int64, NoShape>) -> ({F32})",
                "Default/Cast-op8",
            ),
            (
                "  %4(CNode_5) = PrimFunc_Mul(%2, %3) cnode_attrs: {duplicated: Bool(1)}",
                f"({F32}, {F32}) -> ({F32})",
                "Default/Mul-op7",
            ),
            (
                "  %5(CNode_6) = PrimFunc_Cast(%4, I64(45))",
                f"({F32}, <Int64, NoShape>) -> ({BF16})",
                "Default/Cast-op9",
            ),
            ("  Return(%5)", f"({BF16})", "Default/Return-op2"),
        ),
    ),
    (_AROUND[1], ()),
)
LAUNCHED = printed(
    (
        (
            "  %0(CNode_1) = GraphKernel_Mul_fusion(%para1_x, %para2_w) primitive_attrs: {stream_id: U32(0), "
            'graph_kernel: "Mul_fusion", func_graph: b_1} cnode_attrs: {is_any_output: Bool(0)}',
            "Default/GraphKernel_Mul_fusion-op5",
        ),
        ("  Return(%0) primitive_attrs: {visited: Bool(1)}", "Default/Return-op0"),
    )
)
