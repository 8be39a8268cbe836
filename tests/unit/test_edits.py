from __future__ import annotations

from typing import Any

from swapconf.config.config import Config, ListedSwap, RecomputeConfig
from swapconf.decide.edits import Edit, Offload, RecomputeCell, RecomputeComm, RecomputePrimitive, edits
from swapconf.decide.strategy import Strategy, Swap
from swapconf.train.cells import apply, read_layer
from tests.unit.networks import TOY, config
from tests.unit.test_expand import full, op, ops, select, strategy, whole


def of_layer(cfg: Config, layer: int = 1) -> tuple[Edit, ...]:
    result = strategy(cfg)
    return edits(result.layers[layer].plan, TOY, result.recompute_options)


def test_a_layer_without_preset_operators_below_is_flagged_cell_by_cell() -> None:
    assert of_layer(ops(op("attention", 3))) == (Offload("attention", 3),)


def test_a_cell_is_flagged_as_one_only_where_all_below_it_agree() -> None:
    flagged = of_layer(config(swap=ListedSwap(layer_swap=(whole(3),), given_entries=1)))
    assert set(flagged) == {
        Offload("add", 3),
        Offload("attention", 3),
        Offload("feed_forward", 3),
        Offload("norm.norm", 3),
    }  # norm.cast is recomputed by the model


def test_swap_goes_only_where_recompute_does_not_win() -> None:
    asked = ops(op("attention", 3), recompute=RecomputeConfig(select=(select(r"attention\.flash_attention"),)))
    assert of_layer(asked) == (RecomputeCell("attention.flash_attention", {}), Offload("attention.wq", 3))


def test_recompute_comes_first_then_exclusion_communication_and_swap() -> None:
    recompute = RecomputeConfig(
        select=(select(r"feed_forward\.mul"),),
        select_exclude=(select(r"norm\.cast"),),
        select_comm=(select(r"norm\.norm"),),
    )
    assert of_layer(ops(op("add", 2), recompute=recompute)) == (
        RecomputePrimitive("feed_forward.mul", True),
        RecomputePrimitive("norm.cast", False),
        RecomputeComm("norm.norm", True),
        Offload("add", 2),
    )


def test_options_reach_whole_layers_and_slicing_only_them() -> None:
    switches: dict[str, Any] = {"mp_comm_recompute": False, "recompute_slice_activation": True}
    assert of_layer(config(recompute=RecomputeConfig(full=full(), **switches))) == (RecomputeCell("", switches),)
    assert of_layer(config(recompute=RecomputeConfig(select=(select("attention"),), **switches))) == (
        RecomputeCell("attention", {"mp_comm_recompute": False}),
    )


class FakePrimitive:
    def __init__(self) -> None:
        self.attrs: dict[str, Any] = {}

    def _offload(self, backward_prefetch: int) -> None:
        self.attrs.update(offload=True, backward_prefetch=backward_prefetch)

    def recompute(self, on: bool) -> None:
        self.attrs["recompute"] = on

    def add_prim_attr(self, name: str, value: Any) -> None:
        self.attrs[name] = value


class FakeCell:
    def __init__(self) -> None:
        self._cells: dict[str, FakeCell] = {}
        self._primitives: dict[str, FakePrimitive] = {}
        self._has_config_recompute = False
        self.recomputed_with: dict[str, Any] | None = None

    def below(self) -> list[FakePrimitive]:
        return [*self._primitives.values(), *(p for child in self._cells.values() for p in child.below())]

    def offload(self, backward_prefetch: int) -> None:
        for primitive in self.below():
            primitive._offload(backward_prefetch)

    def recompute(self, **options: Any) -> None:
        self.recomputed_with = options


def build() -> FakeCell:
    """A fake of the toy layer; the real cells are tested with the mindspore marker."""
    cells = {"": FakeCell()}
    for operator in TOY.operators:
        parent = cells[operator.path.rpartition(".")[0]]
        if operator.kind == "cell":
            cells[operator.path] = FakeCell()
            parent._cells[operator.name] = cells[operator.path]
            setattr(parent, operator.name, cells[operator.path])
        else:
            primitive = FakePrimitive()
            if operator.preset_recompute is not None:
                primitive.attrs["recompute"] = operator.preset_recompute
            parent._primitives[operator.name] = primitive
            setattr(parent, operator.name, primitive)
    return cells[""]


def offloaded(layer: FakeCell, prefix: str = "") -> dict[str, int]:
    found = {
        prefix + name: primitive.attrs["backward_prefetch"]
        for name, primitive in layer._primitives.items()
        if primitive.attrs.get("offload")
    }
    for name, child in layer._cells.items():
        found.update(offloaded(child, f"{prefix}{name}."))
    return found


def decided(result: Strategy, layer: int) -> dict[str, int]:
    return {
        path: decision.action.prefetch
        for path, decision in result.layers[layer].plan.decisions.items()
        if isinstance(decision.action, Swap)
    }


def test_applied_flags_are_exactly_the_decisions() -> None:
    cases = (
        ops(op("attention", 3)),
        ops(op("attention", 1), op(r"attention\.flash_attention", 7)),
        config(swap=ListedSwap(layer_swap=(whole(3),), op_swap=(op("add", 2),), given_entries=2)),
        ops(op("feed_forward", 4), recompute=RecomputeConfig(select=(select(r"feed_forward\.w2"),))),
    )
    for cfg in cases:
        result = strategy(cfg)
        layer = build()
        apply(layer, edits(result.layers[1].plan, TOY, {}))
        assert offloaded(layer) == decided(result, 1) != {}


def test_what_the_model_recomputes_as_a_cell_is_preset_below_it() -> None:
    layer = build()
    layer._cells["attention"]._has_config_recompute = True
    layer._cells["attention"]._cells["wq"]._primitives["matmul"].attrs["recompute"] = False
    read = read_layer(layer).by_path
    assert read["attention.flash_attention.flash_attention"].preset_recompute is True
    assert read["attention.wq.matmul"].preset_recompute is False
    assert read["add"].preset_recompute is None


def test_read_layer_gives_the_tree_with_preset_flags() -> None:
    read = read_layer(build())
    assert {(o.path, o.kind, o.preset_recompute) for o in read.operators} == {
        (o.path, o.kind, o.preset_recompute) for o in TOY.operators
    }
