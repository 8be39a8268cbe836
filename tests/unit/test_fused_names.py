"""What MindSpore cut from a fused kernel is called as it was when it was chosen."""

from __future__ import annotations

from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import Argument, FuncGraph, FuncNode, Kind
from swapconf.trace.fused_names import ENDS, INNER, Called, ends_expansion, is_read_beside, with_ends, with_scopes

CELL = "Default/network-N/layers-CellList/1-Layer/mlp-Mlp/router-Router"


def fused(name: str, *nodes: str, near: str = "", beside: str = "") -> Called:
    """``nodes``: their names."""
    inside = tuple(
        FuncNode(name=one, primitive=one.rpartition("/")[2].partition("-")[0], callee="", arguments=()) for one in nodes
    )
    graph = FuncGraph(name=name, parameters=(), nodes=inside)
    return Called(graph, frozenset(filter(None, [near])), frozenset(filter(None, [beside])))


def names(found: FuncGraph) -> list[str]:
    return [node.name for node in found.nodes]


def test_a_kernel_between_others_that_were_cut_from_the_same_is_told_by_them() -> None:
    """Two routers: what is read and read by tells the first and the last kernel of each, these the one between."""
    chosen = {
        f"{FUSED}{turn}": fused(
            f"g{turn}", *(f"{CELL}{turn}/{kind}-op0" for kind in ("Exp", "Add", "Div")), near=f"gather{turn}"
        )
        for turn in (1, 2)
    }
    cut = {
        f"{FUSED}{kind}_split-op{turn}": fused(
            f"{kind}{turn}",
            f"Default/{kind}-op{turn}",
            near=f"gather{turn}" if kind != "Add" else "",
            beside=f"{FUSED}Exp_split-op{turn}" if kind == "Add" else "",
        )
        for turn in (2, 1)
        for kind in ("Add", "Exp", "Div")
    }
    found = with_scopes(cut, chosen)
    assert {graph: names(of) for graph, of in found.items()} == {
        f"{kind}{turn}": [f"{CELL}{turn}/{kind}-op0"] for turn in (1, 2) for kind in ("Add", "Exp", "Div")
    }


def test_a_kernel_that_was_left_as_it_was_tells_what_was_cut_beside_it() -> None:
    """Two routers alike: only the kernel of the scores in front, which was not cut, tells which is which."""
    scores = {f"{FUSED}Exp_fusion-op{turn}": fused(f"scores{turn}", f"{CELL}{turn}/Exp-op0") for turn in (1, 2)}
    chosen = {
        f"{FUSED}{turn}": fused(
            f"g{turn}", f"{CELL}{turn}/Div-op0", near="gather", beside=f"{FUSED}Exp_fusion-op{turn}"
        )
        for turn in (1, 2)
    }
    cut = {
        f"{FUSED}Div_split-op{turn}": fused(
            f"cut{turn}", f"Default/Div-op{turn}", near="gather", beside=f"{FUSED}Exp_fusion-op{turn}"
        )
        for turn in (2, 1)
    }
    found = with_scopes({**scores, **cut}, {**scores, **chosen})
    assert {turn: names(found[f"cut{turn}"]) for turn in (1, 2)} == {turn: [f"{CELL}{turn}/Div-op0"] for turn in (1, 2)}


def test_of_those_beside_the_same_the_one_with_names_left_is_meant() -> None:
    chosen = {
        f"{FUSED}a": fused("a", f"{CELL}/Exp-op0", near="gather"),
        f"{FUSED}b": fused("b", f"{CELL}/Div-op0", near="gather"),
    }
    found = with_scopes({f"{FUSED}c": fused("c", "Default/Div-op4", near="gather")}, chosen)
    assert names(found["c"]) == [f"{CELL}/Div-op0"]


def test_a_piece_of_an_expanded_operator_knows_whether_it_makes_the_output() -> None:
    expanded = {"expand_from": "MeanExt"}
    scope = "Default/expand_MeanExt"
    nodes = (
        FuncNode(name=f"{scope}/ReduceSum-op0", primitive="ReduceSum", callee="", arguments=(), attributes=expanded),
        FuncNode(
            name=f"{scope}/Div-op0",
            primitive="Div",
            callee="",
            arguments=(Argument(Kind.NODE, 0),),
            attributes=expanded,
        ),
        FuncNode(name="Default/Mul-op0", primitive="Mul", callee="", arguments=(Argument(Kind.NODE, 1),)),
    )
    found = with_ends(FuncGraph(name="g", parameters=(), nodes=nodes))
    assert [{ENDS, INNER} & node.attributes.keys() for node in found.nodes] == [{INNER}, {ENDS}, set()]


def test_the_cast_at_the_end_of_an_expansion_is_told_where_others_read_what_it_is_made_of() -> None:
    """As of a Sigmoid that is computed in Float32; of a sum that is only cast it is an operator of its own."""

    def node(name: str, primitive: str, read: int | None = None) -> FuncNode:
        arguments = () if read is None else (Argument(Kind.NODE, read),)
        attributes = {"expand_from": "Sigmoid"} if "expand" in name else {}
        return FuncNode(name=name, primitive=primitive, callee="", arguments=arguments, attributes=attributes)

    scope = "Default/expand_Sigmoid"
    start, made, end = node(f"{scope}/Cast-op0", "Cast"), node(f"{scope}/Div-op0", "Div", 0), f"{scope}/Cast-op1"
    nodes = (start, made, node(end, "Cast", 1), node("Default/Mul-op0", "Mul", 1))
    assert [ends_expansion(nodes, place) for place in range(len(nodes))] == [False, False, True, False]
    assert [is_read_beside(nodes, place) for place in range(len(nodes))] == [False, True, False, False]
    assert not ends_expansion(nodes[:3], 2)
