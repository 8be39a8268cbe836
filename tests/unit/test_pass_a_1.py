"""Who waits for a copy to the host, which follows from the order in which pass ``a_1`` has inlined operators.

`tests/traces/waits.tar.xz` has of DeepSeek-V3 (experts, sequence parallel, all layers swapped, MindSpore 2.9.0) a last
stage with a layer that predicts further tokens, and a first stage of three layers: the graph in front of
``offload_activation`` as MindSpore printed it, cut to what decides who waits. That is the forward pass, of the backward
pass what reads values of it or calls K graphs, and of these the operator; names are shortened, types and scopes gone.
expected.json: in MindSpore's own graph behind the pass, by the number of a value that is copied its user that waits, as
primitive, number and place of the input.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from swapconf.trace.launch_graph import DEPEND
from swapconf.whatif.lift import early_text
from swapconf.whatif.lift.func_graphs import CNode, EarlyGraph
from swapconf.whatif.passes.a_1 import inlined_in_order
from swapconf.whatif.passes.offload import MOVE, offload
from tests.helpers import TRACES

RECORDED = TRACES / "waits.tar.xz"


def recorded(name: str) -> str:
    with tarfile.open(RECORDED) as files:
        content = files.extractfile(name)
        assert content is not None
        return content.read().decode()


def read(text: str, folder: Path) -> EarlyGraph:
    path = folder / "early.ir"
    path.write_text(text, encoding="utf-8")
    return early_text.read(path)


def waiting(module: EarlyGraph) -> dict[str, list[object]]:
    users = module.users()
    return {
        value.unique: [user.primitive, user.unique, place]
        for node in module.nodes()
        if node.primitive == DEPEND and isinstance(value := node.inputs[0], CNode)
        if isinstance(copy := node.inputs[1], CNode) and copy.primitive == MOVE and copy.inputs[0] is value
        for user, place in users[node]
    }


@pytest.mark.parametrize("stage", ["last_stage", "first_stage"])
def test_each_copy_is_waited_for_by_the_user_that_mindspore_chose(stage: str, tmp_path: Path) -> None:
    module = read(recorded(f"{stage}.ir"), tmp_path)
    assert offload(module)
    expected, seen = json.loads(recorded("expected.json"))[stage], waiting(module)
    assert set(seen) == set(expected)
    assert [(value, seen[value], user) for value, user in expected.items() if seen[value] != user] == []


STEP = """\
# IR entry: @step
subgraph attr:
subgraph instance: x : 0x0
subgraph @f(%para0_x, %para1_w) {{
  %0(equiv_9_a) = Neg(%para0_x)
  %1(equiv_8_n) = Norm(%0, {weight})
  %2(equiv_7_m) = Mul(%1)
  %3(equiv_6_l) = Exp(%2)
  %4(equiv_5_s) = Add(%0, %3)
  %5(equiv_4_b) = Abs(%4)
  %6(equiv_3_c) = Abs(%5)
  %7(pair) = MakeTuple(%6, @b)
  Return(%7)
}}
subgraph attr:
subgraph instance: y : 0x0
subgraph @b(%para2_dout) {{
  %0(g) = Grad(%para2_dout)
  Return(%0)
}}
subgraph attr:
subgraph instance: z : 0x0
subgraph @step() {{
  %0(called) = call @f(0)
  Return(%0)
}}
"""


RETURNED, WITH_STATE = (
    "  %7(pair) = MakeTuple(%6, @b)\n  Return(%7)\n",
    """\
  %7(equiv_11_o) = Assign(%0, %para1_w)
  %8(equiv_10_u) = UpdateState(0, %7)
  %9(equiv_2_d) = Depend(%6, %8)
  %10(pair) = MakeTuple(%9, @b)
  Return(%10)
""",
)


def turns(weight: str, folder: Path, kept: tuple[str, ...] = (), returned: str = RETURNED) -> dict[str, int]:
    module = read(STEP.format(weight=weight).replace(RETURNED, returned), folder)
    nodes = {node for node in module.nodes() if node.primitive in kept}
    return {node.primitive: turn for node, turn in inlined_in_order(module.graphs["f"], nodes).items()}


def test_who_reads_a_parameter_is_near_to_the_results_of_the_backward_pass(tmp_path: Path) -> None:
    """So a norm is inlined before a sum of the same value, which has only the end of the forward pass near to it."""
    with_weight, without = turns("%para1_w", tmp_path), turns("0", tmp_path)
    assert with_weight["Norm"] < with_weight["Add"]
    assert without["Norm"] > without["Add"]


def test_a_call_that_stays_has_no_turn_and_hides_nothing_behind_it(tmp_path: Path) -> None:
    turned = turns("%para1_w", tmp_path, kept=("Norm",))
    assert "Norm" not in turned
    assert {"Neg", "Mul", "Exp", "Add", "Abs"} <= set(turned)


def test_what_only_states_wait_for_has_no_gradient_and_is_met_from_what_it_reads(tmp_path: Path) -> None:
    turned = turns("%para1_w", tmp_path, returned=WITH_STATE)
    assert turned["Add"] < turned["Assign"]  # no gradient leads to it, so the manager's order is left
    assert turned["Assign"] < turned["UpdateState"]  # not met from the result, which waits for another state then


@pytest.mark.parametrize(
    ("add", "sub", "first", "second"), [("%para1_z", "0", "Sin", "Cos"), ("0", "%para1_z", "Cos", "Sin")]
)
def test_of_a_returned_tuple_that_is_met_first_which_the_last_parameter_leads_to(
    add: str, sub: str, first: str, second: str, tmp_path: Path
) -> None:
    nodes = f"""\
  %0(v) = Neg(%para0_x)
  %1(p) = Sin(%0)
  %2(q) = Cos(%0)
  %3(r) = Add(%1, {add})
  %4(s) = Sub(%2, {sub})
  %5(t) = MakeTuple(%3, %4)
  %6(pair) = MakeTuple(%5, @b)
  Return(%6)
"""
    start, _, rest = STEP.format(weight="").partition("  %0(equiv_9_a)")
    text = f"{start.replace('para1_w', 'para1_z')}{nodes}{rest.partition(RETURNED)[2]}"
    turned = {node.primitive: turn for node, turn in inlined_in_order(read(text, tmp_path).graphs["f"], ()).items()}
    assert turned[first] < turned[second]
