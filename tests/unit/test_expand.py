from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swapconf.config.config import (
    Config,
    DefaultSwap,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
)
from swapconf.decide.expand import R1, R2, decide, expand
from swapconf.decide.requests import Requests
from swapconf.decide.strategy import Action, Decision, Keep, Request, RequestKind, Strategy, Swap
from swapconf.decide.strategy import Recompute as Recomputed
from swapconf.models.network import LayerTemplate, Network, Operator
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin
from tests.helpers import AS_WRITTEN, ROOT, study_of
from tests.unit.networks import ROUTED, TOY, config, network, primitive

FLASH = "attention.flash_attention.flash_attention"
DOCUMENTED = Versions(mindspore="2.6.0", mindformers="1.5.0")


def at(line: int) -> Origin:
    return Origin(file="toy.yaml", line=line)


def layers(*indices: int) -> LayerSelection:
    return LayerIndices(indices) if indices else EveryLayer()


def op(pattern: str, prefetch: int, *indices: int, line: int = 1) -> OpSwap:
    return OpSwap(
        pattern=pattern,
        layers=layers(*indices),
        prefetch=prefetch,
        origin=at(line),
        layers_origin=at(line),
        prefetch_origin=at(line),
    )


def whole(prefetch: int, *indices: int, line: int = 1) -> LayerSwap:
    return LayerSwap(
        layers=layers(*indices), prefetch=prefetch, origin=at(line), layers_origin=at(line), prefetch_origin=at(line)
    )


def select(pattern: str, *indices: int, line: int = 9) -> SelectRecompute:
    return SelectRecompute(pattern=pattern, layers=layers(*indices), origin=at(line))


def full(*indices: int) -> FullRecompute:
    return FullRecompute(layers=layers(*indices), origin=at(9))


def strategy(cfg: Config, net: Network | None = None, versions: Versions | None = None) -> Strategy:
    return expand(cfg, net or network(), versions or Versions(mindspore="2.9.0"))


def ops(*entries: OpSwap, **more: Any) -> Config:
    return config(swap=ListedSwap(op_swap=entries, given_entries=len(entries)), **more)


def decision(result: Strategy, layer: int, path: str) -> Decision:
    return result.layers[layer].plan.decisions[path]


def action(result: Strategy, layer: int, path: str) -> Action:
    return decision(result, layer, path).action


def layer_of(*operators: Operator) -> LayerTemplate:
    return LayerTemplate(name="x", cell="Layer", operators=operators)


def test_nothing_asked_keeps_everything_but_what_the_model_recomputes() -> None:
    result = strategy(config())
    assert set(result.actions().values()) == {Keep(), Recomputed("norm.cast")}


def test_default_swaps_the_flash_attention_of_every_layer_and_nothing_else() -> None:
    result = strategy(config(swap=DefaultSwap(prefetch=10, origin=at(1))))
    swapped = {site for site, what in result.actions().items() if isinstance(what, Swap)}
    assert swapped == {(str(layer), FLASH) for layer in range(4)}
    assert action(result, 2, FLASH) == Swap(10)


def test_first_entry_of_a_name_wins() -> None:
    result = strategy(ops(op("attention", 1, 0, 1), op("attention", 5, 1, 2)))
    assert [action(result, layer, FLASH) for layer in range(4)] == [Swap(1), Swap(1), Swap(5), Keep()]


def test_a_later_name_overrides_where_both_match() -> None:
    result = strategy(ops(op("attention", 1), op(r"attention\.flash_attention", 7)))
    assert action(result, 0, FLASH) == Swap(7)
    assert action(result, 0, "attention.wq.matmul") == Swap(1)


def test_op_swap_comes_after_layer_swap() -> None:
    swap = ListedSwap(layer_swap=(whole(1, 0, 1),), op_swap=(op("attention", 9, 1, 2),), given_entries=2)
    result = strategy(config(swap=swap))
    assert [action(result, layer, FLASH) for layer in range(4)] == [Swap(1), Swap(9), Swap(9), Keep()]
    assert [action(result, layer, "add") for layer in range(4)] == [Swap(1), Swap(1), Keep(), Keep()]


def test_first_layer_entry_wins() -> None:
    result = strategy(config(swap=ListedSwap(layer_swap=(whole(1, 0, 1), whole(7, 1, 2)), given_entries=2)))
    assert [action(result, layer, "add") for layer in range(4)] == [Swap(1), Swap(1), Swap(7), Keep()]


@pytest.mark.parametrize(
    ("swapped", "recomputed", "site"),
    [
        ("attention", "attention", FLASH),
        ("attention", r"attention\.flash_attention", FLASH),
        (r"attention\.flash_attention", "attention", FLASH),
        (r"att.*\.flash.*", "(attention|feed_forward)", FLASH),
    ],
)
def test_r1_same_ancestor_descendant_and_regex(swapped: str, recomputed: str, site: str) -> None:
    result = strategy(ops(op(swapped, 3), recompute=RecomputeConfig(select=(select(recomputed, 1),))))
    assert decision(result, 1, site).reason.rule == R1
    assert isinstance(action(result, 1, site), Recomputed)
    assert action(result, 0, site) == Swap(3)


def test_r1_leaves_the_rest_of_the_swap() -> None:
    result = strategy(
        ops(op("attention", 3), recompute=RecomputeConfig(select=(select(r"attention\.flash_attention", 1),)))
    )
    assert action(result, 1, "attention.wq.matmul") == Swap(3)


def test_r1_whole_layer_voids_the_swap_there() -> None:
    swap = ListedSwap(layer_swap=(whole(3),), given_entries=1)
    result = strategy(config(swap=swap, recompute=RecomputeConfig(full=full(2))))
    outcome = next(o for o in result.layers[2].plan.outcomes if o.request.is_swap)
    assert outcome.void is not None
    assert outcome.void.rule == R1
    assert not outcome.sites


def test_a_flag_of_the_model_against_recompute_is_stronger_than_a_cell() -> None:
    net = network(template=ROUTED)
    result = strategy(config(recompute=RecomputeConfig(full=full(1))), net)
    assert action(result, 1, "feed_forward.router") == Keep()
    named = strategy(config(recompute=RecomputeConfig(select=(select(r"feed_forward\.router", 1),))), net)
    assert action(named, 1, "feed_forward.router") == Recomputed("feed_forward.router")


def test_r2_is_void_as_documented_and_in_effect_as_measured() -> None:
    cfg = ops(op("norm", 3), recompute=RecomputeConfig(select=(select("attention", 1),)))
    documented = decision(strategy(cfg, versions=DOCUMENTED), 1, "norm.norm")
    measured = decision(strategy(cfg), 1, "norm.norm")
    assert (documented.action, documented.reason.rule) == (Keep(), R2)
    assert (measured.action, measured.reason.rule) == (Swap(3), R2)
    assert "2.6.0" in documented.reason.text
    assert "2.9.0" in measured.reason.text


def test_r2_is_not_about_what_the_model_itself_recomputes() -> None:
    template_consumer = strategy(ops(op(r"norm\.norm", 3)), versions=DOCUMENTED)
    assert action(template_consumer, 0, "norm.norm") == Swap(3)


def test_exclusion_has_the_highest_priority() -> None:
    recompute = RecomputeConfig(full=full(), select_exclude=(select(r"feed_forward\.mul"),))
    result = strategy(ops(op("feed_forward", 4), recompute=recompute))
    assert action(result, 0, "feed_forward.mul") == Keep()
    assert action(result, 0, "feed_forward.w2.matmul") == Recomputed("")


def test_communication_is_an_axis_of_its_own() -> None:
    recompute = RecomputeConfig(select_comm=(select(r".*\.norm", 1),), select_comm_exclude=(select(r"norm\.norm", 2),))
    result = strategy(config(recompute=recompute))
    assert [entry.plan.comm_recompute for entry in result.layers] == [{}, {"norm.norm": True}, {"norm.norm": False}, {}]
    assert action(result, 1, "norm.norm") == Keep()


def test_a_cell_in_a_list_of_single_operators_is_void() -> None:
    result = strategy(config(recompute=RecomputeConfig(select_comm=(select("attention", 1),))))
    (outcome,) = result.layers[1].plan.outcomes
    assert outcome.void is not None
    assert outcome.void.rule == "recompute-void"


def test_equal_layers_share_one_plan() -> None:
    result = strategy(ops(op("attention", 3, 1, 2)), network(80))
    assert len({id(entry.plan) for entry in result.layers}) == 2


def test_recompute_options_are_only_what_differs_from_mindspore() -> None:
    assert strategy(config()).recompute_options == {}
    chosen = RecomputeConfig(mp_comm_recompute=False, recompute_slice_activation=True)
    assert strategy(config(recompute=chosen)).recompute_options == {
        "mp_comm_recompute": False,
        "recompute_slice_activation": True,
    }


def test_equal_layers_that_the_same_entries_select_share_one_answer() -> None:
    asked = config(swap=ListedSwap(op_swap=(op("attention", 5), op("feed_forward", 7, 0, 2))))
    net = network(4)
    requests = Requests(asked, net)
    answers = [requests.at(layer) for layer in net.layers]
    assert answers[0] is answers[2]
    assert answers[1] is answers[3]
    assert answers[0] != answers[1]


def test_what_is_excluded_from_recompute_is_not_swapped_either() -> None:
    recompute = RecomputeConfig(select_exclude=(select(r"feed_forward\.mul", 1),))
    decided = strategy(config(swap=ListedSwap(layer_swap=(whole(4),)), recompute=recompute)).layers
    assert decided[0].plan.decisions["feed_forward.mul"].action == Swap(4)
    assert decided[1].plan.decisions["feed_forward.mul"].action == Keep()
    assert decided[1].plan.decisions["feed_forward.mul"].reason.rule == R1


def test_what_an_excluded_operator_reads_is_not_swapped_unless_it_has_several_outputs() -> None:
    layer = layer_of(
        Operator(path="silu", kind="primitive", type="SiLU", saved=True, consumers=("mul",)),
        Operator(path="topk", kind="primitive", type="TopkExt", saved=True, consumers=("mul",)),
        Operator(path="other", kind="primitive", type="SiLU", saved=True, consumers=("add",)),
        Operator(path="mul", kind="primitive", type="Mul", saved=True),
    )
    asked = (
        Request("layer_swap", "", Origin(file="x"), prefetch=4),
        Request("select_recompute_exclude", "mul", Origin(file="x")),
    )
    decided = decide(layer, asked, consumer_voids=False, version="MindSpore 2.9.0").decisions
    assert {path: decision.action for path, decision in decided.items()} == {
        "silu": Keep(),
        "topk": Swap(4),
        "other": Swap(4),
        "mul": Keep(),
    }
    assert decided["silu"].reason.rule == R1


def test_what_excluded_flash_attention_reads_is_not_swapped_and_one_of_the_casts_of_an_excluded_norm_is() -> None:
    layer = layer_of(
        Operator(path="transpose", kind="primitive", type="Transpose", saved=True, consumers=("flash",)),
        Operator(path="cast", kind="primitive", type="Cast", saved=True, consumers=("norm",)),
        Operator(path="both", kind="primitive", type="Cast", saved=True, consumers=("flash", "other")),
        Operator(path="flash", kind="primitive", type="FlashAttentionScore", saved=True),
        Operator(path="norm", kind="primitive", type="RmsNorm", saved=True),
        Operator(path="other", kind="primitive", type="Mul", saved=True),
    )
    asked = (
        Request("layer_swap", "", Origin(file="x"), prefetch=4),
        Request("select_recompute_exclude", "flash", Origin(file="x")),
        Request("select_recompute_exclude", "norm", Origin(file="x")),
    )
    decided = decide(layer, asked, consumer_voids=False, version="MindSpore 2.9.0").decisions
    kept = {path for path, decision in decided.items() if decision.action == Keep()}
    assert kept == {"transpose"}
    assert decided["transpose"].reason.rule == R1


@pytest.mark.parametrize("cell", ["pre_cross_attn_layernorm", "cross_attention"])
def test_what_a_recomputed_cell_without_operators_hands_on_is_not_swapped(cell: str) -> None:
    def layer(*consumers: str) -> LayerTemplate:
        return layer_of(
            Operator(path=cell, kind="cell", type="IdentityOp"),
            Operator(path="add", kind="primitive", type="AddExt", saved=True, consumers=consumers),
            Operator(path="cast", kind="primitive", type="Cast"),
        )

    def decided(template: LayerTemplate, *more: Request) -> Decision:
        asked = (Request("layer_swap", "", Origin(file="x"), prefetch=4), *more)
        return decide(template, asked, consumer_voids=False, version="MindSpore 2.9.0").decisions["add"]

    through = Request("select_recompute", cell, Origin(file="x"))
    in_32_bits, other = layer("add", "cast", "pre_mlp_layernorm.norm"), layer("add", "pre_mlp_layernorm.cast")
    assert decided(in_32_bits).action == Swap(4)
    assert decided(in_32_bits, through).action == Keep()
    assert cell in decided(in_32_bits, through).reason.text
    assert decided(other, through).action == Swap(4), "the second sum is read as it is"


def test_what_the_model_excludes_inside_what_is_recomputed_is_not_swapped_unless_it_has_several_outputs() -> None:
    layer = layer_of(
        Operator(path="router", kind="cell", type="Router"),
        Operator(path="router.div", kind="primitive", type="Div", saved=True, preset_recompute=False),
        Operator(path="router.topk", kind="primitive", type="TopkExt", saved=True, preset_recompute=False),
    )

    def decided(*kinds: RequestKind, operator: str = "") -> dict[str, Action]:
        asked = (
            *(Request(kind, operator, Origin(file="x")) for kind in kinds),
            Request("layer_swap", "", Origin(file="x"), prefetch=4),
        )
        return decide(layer, asked, consumer_voids=False, version="MindSpore 2.9.0").actions()

    assert decided() == {"router.div": Swap(4), "router.topk": Swap(4)}
    assert decided("recompute") == {"router.div": Keep(), "router.topk": Swap(4)}
    assert decided("select_recompute", operator="router") == {"router.div": Keep(), "router.topk": Swap(4)}
    assert decided("select_recompute", operator="router.div") == {
        "router.div": Recomputed("router.div"),
        "router.topk": Swap(4),
    }


def test_equal_layers_share_one_plan_though_each_has_a_template_of_its_own() -> None:
    plain = network(2)
    twins = replace(plain, layers=tuple(replace(layer, template=replace(TOY)) for layer in plain.layers))
    assert twins.layers[0].template is not twins.layers[1].template
    assert twins.templates == (TOY,)
    first, second = expand(config(2), twins, DOCUMENTED).layers
    assert first.plan is second.plan


def test_layers_of_which_one_operator_differs_have_plans_of_their_own() -> None:
    plain = network(2)
    other = replace(TOY, operators=(*TOY.operators[:-1], primitive("feed_forward.w2.other", "add")))
    mixed = replace(plain, layers=(plain.layers[0], replace(plain.layers[1], template=other)))
    assert mixed.templates == (TOY, other)
    first, second = expand(config(2), mixed, DOCUMENTED).layers
    assert first.plan.decisions.keys() != second.plan.decisions.keys()


@pytest.mark.parametrize("mindspore", ["2.7.2", "2.9.0"])
def test_flash_attention_and_norms_are_selected_by_themselves_for_nothing_with_mindspore_2_7(mindspore: str) -> None:
    alone, around = r"self_attention\.core_attention\.flash_attention", "input_layernorm"
    recompute = f"{{recompute: False, select_recompute: {{{alone}: [0, 1], {around}: [1]}}}}"
    study = study_of(
        ROOT / "configs" / "small" / "qwen3_default_swap.yaml",
        "swap_config.layer_swap=[{backward_prefetch: 1, layers: [0]}]",
        f"recompute_config={recompute}",
        versions=Versions(mindspore=mindspore, mindformers="1.8.0"),
        settings=AS_WRITTEN,
    )
    told = [finding.message for finding in study.findings if finding.rule == "recompute-nothing"]
    assert study.strategy is not None
    first, second = study.strategy.layers[:2]
    path = alone.replace("\\", "")
    if mindspore == "2.9.0":
        assert not told
        assert first.plan.actions()[path] == Recomputed(path)
    else:
        (message,) = told
        assert path in message
        assert isinstance(first.plan.actions()[path], Swap), "no flag is in the way of the swap"
        assert second.plan.actions()[path] == Keep()
    assert second.plan.actions()["input_layernorm.norm"] == Recomputed("input_layernorm")


@pytest.mark.parametrize("mindspore", ["2.7.2", "2.9.0"])
def test_a_cell_around_flash_attention_alone_is_told_of_where_lazy_inline_is_off(mindspore: str) -> None:
    cell, alone = r"attention\.flash_attention", r"attention\.flash_attention\.flash_attention"
    study = study_of(
        ROOT / "configs" / "small" / "example1_default_swap.yaml",
        "swap_config.swap=False",
        "use_parallel=True",
        "parallel.parallel_mode=1",
        f"recompute_config={{recompute: False, select_recompute: {{{cell}: True, {alone}: True}}}}",
        versions=Versions(mindspore=mindspore, mindformers="1.9.0"),
        settings=AS_WRITTEN,
    )
    told = [finding.origin.path for finding in study.findings if finding.rule == "recompute-nothing"]
    assert [path.rpartition(".select_recompute.")[2] for path in sorted(told)] == [cell, alone], "each once"
