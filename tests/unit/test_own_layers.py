"""What a run tells of the layers of a model that the catalog does not know: kept beside its trace, read from there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.dryrun import layer_facts
from swapconf.models import own_layers
from swapconf.models.network import LayerTemplate, Operator
from swapconf.models.own_layers import LayersRead, OwnLayers
from swapconf.trace.called_text import called
from swapconf.trace.launch_graph import LaunchGraph

LAYER = LayerTemplate(
    name="own",
    cell="OwnBlock",
    operators=(
        Operator(path="mixer", kind="cell", type="TokenMixer"),
        Operator(path="mixer.to_heads", kind="primitive", type="Transpose"),
        Operator(path="mixer.from_heads", kind="primitive", type="Transpose"),
        Operator(path="mixer.square", kind="primitive", type="Square", preset_recompute=True),
        Operator(path="mixer.split", kind="primitive", type="Reshape"),
        Operator(path="mixer.unused", kind="primitive", type="Exp"),
    ),
)
CELLS = "Default/network-Own/layers-CellList/{layer}-OwnBlock/mixer-TokenMixer/{node}"


def name(node: str, layer: int = 0) -> str:
    return CELLS.format(layer=layer, node=node)


def test_layers_are_read_back_as_they_were_told_one_by_one(tmp_path: Path) -> None:
    other = replace(LAYER, name="own1", cell="OtherBlock")
    told = LayersRead(tmp_path / own_layers.FILE)
    for index, template in enumerate((LAYER, LAYER, other)):
        told.add(index, template)
    assert own_layers.read(tmp_path) == OwnLayers(templates={0: LAYER, 1: LAYER, 2: other})


def test_what_the_graph_tells_of_them_is_kept(tmp_path: Path) -> None:
    square = replace(LAYER.operators[3], executed=True, saved=False, consumers=("mixer.to_heads",))
    known = OwnLayers(templates={0: replace(LAYER, operators=(square,))}, called={name("Square-op0"): "square"})
    own_layers.write(known, tmp_path / own_layers.FILE)
    assert own_layers.read(tmp_path) == known


@pytest.mark.parametrize("damage", [{"form": 2}, {"layers": {"0": 7}}, {"templates": [{}]}, {"layers": {"-1": 0}}])
def test_a_damaged_file_tells_of_no_layers(damage: dict[str, object], tmp_path: Path) -> None:
    own_layers.write(OwnLayers(templates={0: LAYER}), tmp_path / own_layers.FILE)
    content = json.loads((tmp_path / own_layers.FILE).read_text())
    (tmp_path / own_layers.FILE).write_text(json.dumps({**content, **damage}))
    assert own_layers.read(tmp_path) is None


def test_where_all_layers_of_a_smaller_run_are_equal_the_others_are_like_them() -> None:
    other = replace(LAYER, cell="OtherBlock")
    assert OwnLayers(templates={0: LAYER, 1: LAYER}).of_model(3) == (LAYER,) * 3
    assert OwnLayers(templates={0: LAYER, 1: other}).of_model(2) == (LAYER, other)
    assert OwnLayers(templates={0: LAYER, 1: other}).of_model(3) == ()
    assert OwnLayers(templates={}).of_model(1) == ()


IR = """subgraph @kernel_graph0() {
  %1(a) = PrimFunc_Transpose(%para1, (I64(1), I64(0))) primitive_attrs: {}
      # Fullname with scope: (Default/Transpose-op0)
      # In file /x/own_model.py:114, 17~49/        states = self.mixer(self.pre_mix(states))/
      # In file /x/own_model.py:67~69, 16~91/        query = self.to_heads(self.split(states), (1, 0))/
  %2(b) = PrimFunc_Reshape(%1, (I64(1), I64(0))) primitive_attrs: {}
      # Fullname with scope: (Default/Reshape-op0)
  %3(c) = PrimFunc_Cast(%2, I64(43)) primitive_attrs: {}
      # Fullname with scope: (Default/Cast-op0)
      # In file /x/own_model.py:67, 16~91/        query = self.to_heads(self.split(states), (1, 0))/
      # In file /x/own_model.py:12, 8~20/        F.cast(x, kind)/
  Return(%3)
      # In file /x/own_model.py:1, 0~9/self.norm(x)/
}
"""


def test_the_innermost_source_of_a_node_tells_which_attribute_of_its_cell_it_calls(tmp_path: Path) -> None:
    (tmp_path / "graph.ir").write_text(IR)
    assert called(tmp_path / "graph.ir") == {"Default/Transpose-op0": "to_heads"}


def graph(*nodes: tuple[str, str, tuple[int, ...]]) -> LaunchGraph:
    """Of (name, primitive, inputs)."""
    count = len(nodes)
    return LaunchGraph(
        name=tuple(node[0] for node in nodes),
        primitive=tuple(node[1] for node in nodes),
        inputs=tuple(node[2] for node in nodes),
        item=np.full(count, -1, dtype=np.int64),
        unique=("",) * count,
        forward_unique=("",) * count,
        fused=(None,) * count,
        end=count - 1,
    )


MADE = graph(
    (name("Square-op0"), "Square", (-1,)),
    (name("Transpose-op0"), "Transpose", (0,)),
    ("", "MakeTuple", (1,)),
    ("", "TupleGetItem", (2,)),
    (name("Transpose-op1"), "Transpose", (3,)),
    (name("Square-op1", layer=1), "Square", (4,)),
    ("", "Depend", (4, 0)),
    (f"Gradients/{name('Grad_Square-op0')}", "Mul", (6, 5)),
    ("", "Return", (7,)),
)
CALLED = {name("Square-op0"): "square", name("Transpose-op0"): "to_heads", name("Transpose-op1"): "from_heads"}


def test_the_graph_of_a_run_tells_who_reads_whom_and_what_a_gradient_reads() -> None:
    found = layer_facts.with_graph(OwnLayers(templates={0: LAYER, 1: LAYER}), MADE, CALLED)
    operators = found.templates[0].by_path
    assert operators["mixer.square"].consumers == ("mixer.to_heads",)  # not those that a Depend waits for
    assert operators["mixer.to_heads"].consumers == ("mixer.from_heads",)
    assert operators["mixer.from_heads"].consumers == ()  # what reads it stands in another layer
    assert (operators["mixer.from_heads"].executed, operators["mixer.from_heads"].saved) == (True, True)
    assert (operators["mixer.to_heads"].executed, operators["mixer.to_heads"].saved) == (True, False)
    assert (operators["mixer.unused"].executed, operators["mixer.unused"].saved) == (False, False)


def test_of_a_view_that_the_graph_lacks_nothing_is_known_as_it_may_be_merged_with_another() -> None:
    found = layer_facts.with_graph(OwnLayers(templates={0: LAYER, 1: LAYER}), MADE, CALLED)
    assert found.templates[0].by_path["mixer.split"] == LAYER.by_path["mixer.split"]


def test_names_are_kept_where_the_type_does_not_tell_which_operator_it_is() -> None:
    found = layer_facts.with_graph(OwnLayers(templates={0: LAYER, 1: LAYER}), MADE, CALLED)
    assert found.called == CALLED  # all of the cell that has two Transposes
    alone = replace(LAYER, operators=tuple(one for one in LAYER.operators if one.path != "mixer.from_heads"))
    assert layer_facts.with_graph(OwnLayers(templates={0: alone}), MADE, CALLED).called == {}


def test_of_an_operator_that_a_gradient_reads_in_one_of_two_calls_it_is_not_known() -> None:
    """Its flag is one for both calls; of a view it does not matter which is copied."""
    twice = replace(
        MADE,
        name=(*MADE.name[:5], name("Square-op2"), *MADE.name[6:]),
        primitive=(*MADE.primitive[:5], "Square", *MADE.primitive[6:]),
    )
    operators = layer_facts.with_graph(OwnLayers(templates={0: LAYER, 1: LAYER}), twice, CALLED).templates[0].by_path
    assert operators["mixer.square"].saved is None
    assert operators["mixer.square"].executed
