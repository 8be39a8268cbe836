"""What MindSpore prints of fused kernels, read into the operators that the model asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.trace import func_graph_text, fused_kernels_text
from swapconf.trace.fused_kernels import FusedKernel
from swapconf.trace.tensor import Tensor
from swapconf.words.findings import SwapconfError
from tests.unit.graph_texts import BF16, CLUSTERED, F32, LAUNCHED, SPLIT, func_graphs

NAME = "Default/GraphKernel_Mul_fusion-op5"
NARROW = Tensor("BFloat16", (8, 4))


def read(folder: Path, *, launched: str = LAUNCHED, split: str = SPLIT, clustered: str = CLUSTERED) -> FusedKernel:
    for name, text in (("launched", launched), ("split", split), ("clustered", clustered)):
        (folder / name).write_text(text)
    found = fused_kernels_text.read(folder / "launched", [folder / "split"], [folder / "clustered"])
    assert list(found) == [NAME]
    return found[NAME]


def test_it_is_opened_into_what_the_model_asked_for(tmp_path: Path) -> None:
    silu, product = read(tmp_path).operators
    cell = "Default/network-N/layers-CellList/0-Layer/mlp-Mlp"
    assert (silu.primitive, silu.name, silu.read, silu.given, silu.made) == (
        "SiLU",
        f"{cell}/act-A/SiLU-op1",
        (),
        (0,),
        replace(NARROW, dtype="Float32"),
    )
    assert (product.primitive, product.name, product.read, product.given) == ("Mul", f"{cell}/Mul-op3", (0,), (1,))
    assert product.made == NARROW
    assert (silu.is_copy, product.is_copy) == (False, True)
    assert read(tmp_path).outputs == (1,)


def test_without_what_was_chosen_it_is_opened_all_the_same(tmp_path: Path) -> None:
    found = read(tmp_path, clustered=CLUSTERED.replace("kernel_graph0", "kernel_graph5"))
    assert [operator.name for operator in found.operators] == ["Default/SiLU-op7", "Default/Mul-op7"]


def test_of_what_was_cut_in_pieces_the_last_one_is_what_the_model_asked_for(tmp_path: Path) -> None:
    """The first part of it is handed out, too."""
    text = SPLIT.replace("  Return(%5)", "  %6(CNode_7) = MakeTuple(%1, %5)\n  Return(%6)")
    found = read(tmp_path, split=text)
    assert [operator.primitive for operator in found.operators] == ["Exp", "SiLU", "Mul"]
    assert found.outputs == (0, 2)
    found = read(tmp_path, split=text, clustered=CLUSTERED.replace("kernel_graph0", "kernel_graph5"))
    assert [operator.primitive for operator in found.operators] == ["Exp", "SiLU", "Mul"]  # what reads it tells


def test_the_cast_at_the_end_of_what_an_operator_is_expanded_to_is_that_operator(tmp_path: Path) -> None:
    """It is handed out, and what reads the operator in the same kernel reads what it is made of."""
    cast = ' = PrimFunc_Cast({}, I64(45)) cnode_attrs: {{expand_from: "SiLU"}}'
    types = f"      : ({F32}, <Int64, NoShape>) -> ({BF16})\n"
    at_end = f"  %6(CNode_8){cast.format('%2')}\n{types}      # Fullname with scope: (Default/Cast-op10)\n"
    split = SPLIT.replace("  Return(%5)", f"{at_end}  %7(CNode_9) = MakeTuple(%6, %5)\n  Return(%7)")
    scope = (
        "      # Fullname with scope: (Default/network-N/layers-CellList/0-Layer/mlp-Mlp/act-A/expand_SiLU/Cast-op1)\n"
    )
    chosen = f"  %9(CNode_9){cast.format('%1')}\n{types}{scope}  %2(CNode_4) = PrimFunc_Mul(%1"
    found = read(tmp_path, split=split, clustered=CLUSTERED.replace("  %2(CNode_4) = PrimFunc_Mul(%1", chosen))
    silu, product = found.operators
    assert (silu.primitive, silu.made, silu.given) == ("SiLU", NARROW, (0,))
    assert (product.primitive, product.read) == ("Mul", (0,))
    assert found.outputs == (0, 1)


def test_a_cast_that_was_asked_for_is_an_operator(tmp_path: Path) -> None:
    asked = "%5(CNode_6) = PrimFunc_Cast(%4, I64(45)) primitive_attrs: {IsFeatureMapOutput: Bool(1)}"
    found = read(tmp_path, split=SPLIT.replace("%5(CNode_6) = PrimFunc_Cast(%4, I64(45))", asked))
    assert [operator.primitive for operator in found.operators] == ["SiLU", "Mul", "Cast"]
    assert found.operators[-1].read == (1,)


def test_a_kernel_whose_inside_was_not_printed_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        read(tmp_path, launched=LAUNCHED.replace("func_graph: b_1", "func_graph: c_1"))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "trace-header"),
        (SPLIT.partition("}")[0], "trace-encoding"),
        (SPLIT[: SPLIT.index("  Return(%5)")], "trace-truncated"),
        (SPLIT.replace("  Return(%5)", "  %6(CNode_7) = MakeTuple(%5)"), "trace-garbled"),
        (SPLIT.replace("PrimFunc_Exp(%0)", "PrimFunc_Exp(%9)"), "trace-garbled"),
        (SPLIT.replace("= PrimFunc_Exp(%0)", "= (%0"), "trace-garbled"),
    ],
)
def test_what_is_no_whole_text_of_graphs_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "text").write_text(text)
    with pytest.raises(SwapconfError) as caught:
        func_graph_text.read(tmp_path / "text")
    assert {finding.rule for finding in caught.value.findings} <= {rule, "trace-truncated"}


def test_a_kernel_that_is_given_a_constant_of_several_lines_is_found(tmp_path: Path) -> None:
    text = LAUNCHED.replace("(%para1_x, %para2_w)", "(%para1_x, Tensor(shape=[2], dtype=Float32, value=\n[1.0\n 1.0]))")
    assert read(tmp_path, launched=text) == read(tmp_path)


_TYPES = "(<Tensor[Float32], (8, 4)>) -> (<Tensor[Float32], (8, 4)>)"


def two_kernels(order: str, name: str, inside: str) -> str:
    """One of Neg behind each of two products, printed in this ``order``, and named by their turns."""
    calls = [
        (f"  %{turn + 2}(CNode_{turn}) = call @{cell}_1(%{'ab'.index(cell)})", _TYPES, name.format(turn))
        for turn, cell in enumerate(order)
    ]
    products = [
        (f"  %{turn}(CNode_9{turn}) = MatMul(%para1_x, %para1_x)", _TYPES, f"Default/N/{cell}-Layer/MatMul-op0")
        for turn, cell in enumerate("ab")
    ]
    end = ("  Return(%3)", _TYPES, "Default/Return-op9")
    negs = [
        (
            f"{cell}_1(%para3_Parameter_{cell})",
            (
                (f"  %0(CNode_8) = PrimFunc_Neg(%para3_Parameter_{cell})", _TYPES, inside.format(cell)),
                ("  Return(%0)", _TYPES, "Default/Return-op1"),
            ),
        )
        for cell in "ab"
    ]
    return func_graphs(("kernel_graph0(%para1_x)", (*products, *calls, end)), *negs)


def test_kernels_that_are_made_anew_in_another_order_are_told_by_what_is_beside_them(tmp_path: Path) -> None:
    last = "".join(
        LAUNCHED.replace("func_graph: b_1", f"func_graph: {cell}_1").replace("fusion-op5", f"fusion-op{turn}")
        for turn, cell in enumerate("ab")
    )
    (tmp_path / "launched").write_text(last)
    (tmp_path / "clustered").write_text(two_kernels("ab", "Default/GraphKernel_Neg-op{}", "Default/N/{}-Layer/Neg-op3"))
    (tmp_path / "split").write_text(two_kernels("ba", "Default/GraphKernel_Neg-op1{}", "Default/Neg-op7"))
    found = fused_kernels_text.read(tmp_path / "launched", [tmp_path / "split"], [tmp_path / "clustered"])
    assert [kernel.operators[0].name for kernel in found.values()] == [
        "Default/N/a-Layer/Neg-op3",
        "Default/N/b-Layer/Neg-op3",
    ]
