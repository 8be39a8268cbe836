"""A graph as MindSpore prints it: shortened from one of MindSpore 2.9.0, with what its readers may stumble over."""

from __future__ import annotations

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


def printed(nodes: tuple[tuple[str, str], ...] = NODES, *, count: int | None = None, graphs: int = 1) -> str:
    """The whole text. ``count``: of nodes, as the text tells it."""
    told = (
        "\n".join((line, *LINES, *([f"      # Fullname with scope: ({name})"] if name else []))) for line, name in nodes
    )
    graph = "\n".join(("subgraph @kernel_graph0() {", *told, "}\n"))
    return HEAD.format(count=len(nodes) if count is None else count) + "\n" + graph * graphs + TAIL
