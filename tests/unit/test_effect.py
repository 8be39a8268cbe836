"""What the golden traces moved, and how that compares with what their configs decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from swapconf.config.config import Config, DefaultSwap, ListedSwap, RecomputeConfig
from swapconf.decide.expand import expand
from swapconf.decide.strategy import Strategy
from swapconf.dryrun.effect.compare_copies import MISSING, UNASKED, compare
from swapconf.dryrun.effect.effect import Copies, Effect, Launch, Move, observed
from swapconf.models import catalog
from swapconf.models.network import Layer, LayerTemplate, Network
from swapconf.trace.blocks import Blocks
from swapconf.upstream.facts import Versions
from swapconf.upstream.scopes import Place, place_of
from swapconf.words.findings import Finding, Origin
from tests.helpers import golden
from tests.unit.networks import ROUTED, config, network
from tests.unit.test_expand import at, op, ops, select, whole

SECTION = Origin(file="toy.yaml", path="swap_config")
FLASH = r"attention\.flash_attention"


def llama(num_layers: int) -> Network:
    templates = catalog.load("llama").templates_for({"use_flash_attention": True}, num_layers)
    return Network(family="llama", layers=layers_of(templates), flash_attention=FLASH)


def qwen3(num_layers: int) -> Network:
    return Network(family="qwen3", layers=layers_of(catalog.load("qwen3").templates_for({}, num_layers)))


def layers_of(templates: Iterable[LayerTemplate]) -> tuple[Layer, ...]:
    return tuple(Layer(index=index, name=str(index), template=template) for index, template in enumerate(templates))


def decided(cfg: Config, net: Network, versions: Versions | None = None) -> Strategy:
    return expand(cfg, net, versions or Versions())


def told(strategy: Strategy, effect: Effect) -> list[Finding]:
    return list(compare(strategy, effect, SECTION))


LAYER_SWAP = config(2, swap=ListedSwap(layer_swap=(whole(1, line=3),), given_entries=1))
FLASH_SWAP = ops(op(FLASH, 1, line=4))
FFN_NORM_SWAP = ops(op("ffn_norm", 1, line=5), recompute=RecomputeConfig(select=(select("feed_forward", 1),)))
CASES = {
    "llama_l2_layerswap_n1": (2, LAYER_SWAP),
    "llama_l2_none": (2, config(2)),
    "llama_l2_recompute": (2, config(2)),
    "llama_l3_ffnnorm_swap_ffn_recompute": (3, FFN_NORM_SWAP),
    "llama_l3_flash_n1": (3, FLASH_SWAP),
}


def seen(name: str) -> Effect:
    return observed(golden(name), num_layers=CASES[name][0])


# --- what moved -----------------------------------------------------------------------------------------------------


def test_whole_layers() -> None:
    effect = seen("llama_l2_layerswap_n1")
    layer = Copies(num_tensors=25, size_bytes=35_168_258, host_bytes=35_168_768)
    assert effect.by_layer == {"0": layer, "1": layer}
    assert round(35_168_258 / 2**20, 2) == 33.54
    assert effect.total == Copies(50, 70_336_516, 70_337_536)
    assert effect.host_peak_bytes == 70_337_536
    assert (effect.layers, effect.frees_nothing) == (frozenset({"0", "1"}), False)


def test_operators_of_a_layer() -> None:
    operators = {
        (place.cell, primitive): copies.num_tensors
        for (place, primitive), copies in seen("llama_l2_layerswap_n1").by_operator.items()
        if place.layer == "1"
    }
    assert operators == {
        ("", "Add"): 2,
        ("attention_norm", "RmsNorm"): 1,
        ("attention", "Reshape"): 1,
        ("attention.wq", "Reshape"): 1,  # of the norm's output, which wk and wv read as well
        **{(f"attention.{name}", "Cast"): 1 for name in ("wq", "wk", "wv", "wo")},  # of the weights
        ("attention.apply_rotary_emb", "Add"): 2,
        ("attention.flash_attention", "FlashAttentionScore"): 4,
        ("attention.wo", "Reshape"): 1,
        ("ffn_norm", "RmsNorm"): 1,
        ("feed_forward.w1", "Cast"): 1,
        ("feed_forward.w1", "MatMul"): 1,
        ("feed_forward.w1", "Reshape"): 1,
        ("feed_forward.w2", "Cast"): 1,
        ("feed_forward.w2", "Reshape"): 1,
        ("feed_forward.w3", "Cast"): 1,
        ("feed_forward.w3", "Reshape"): 2,
    }


def test_flash_attention() -> None:
    effect = seen("llama_l3_flash_n1")
    assert effect.by_operator == {
        (Place(str(layer), "attention.flash_attention"), "FlashAttentionScore"): Copies(4, 1_310_722, 1_311_232)
        for layer in range(3)
    }
    assert (effect.total, effect.host_peak_bytes) == (Copies(12, 3_932_166, 3_933_696), 3_933_696)


def test_a_recomputed_reader_adds_a_copy() -> None:
    effect = seen("llama_l3_ffnnorm_swap_ffn_recompute")
    assert effect.by_layer == {
        "0": Copies(1, 16_384, 16_384),
        "1": Copies(2, 4_210_688, 4_210_688),
        "2": Copies(1, 16_384, 16_384),
    }
    assert {primitive for place, primitive in effect.by_operator if place.layer == "1"} == {"RmsNorm", "Cast"}


@pytest.mark.parametrize("name", ["llama_l2_none", "llama_l2_recompute"])
def test_nothing(name: str) -> None:
    effect = seen(name)
    assert (effect.moves, effect.total, effect.host_peak_bytes) == ((), Copies(0, 0, 0), 0)
    assert effect.layers == {"0", "1"}


def test_without_the_graph_places_are_known_but_not_sizes() -> None:
    whole_trace = golden("llama_l2_layerswap_n1")
    effect = observed(replace(whole_trace, tasks=()), 2)
    assert effect.by_layer == {"0": Copies(25, None, None), "1": Copies(25, None, None)}
    assert {move.primitive for move in effect.moves} == {""}
    assert told(decided(LAYER_SWAP, llama(2)), effect) == []


def test_steps_count_once() -> None:
    once = golden("llama_l3_flash_n1")
    effect = observed(replace(once, kernels=once.kernels * 3, tasks=once.tasks * 3), 3)
    assert effect.moves == seen("llama_l3_flash_n1").moves


MODEL = "Default/network-MFPipelineWithLossScaleCell/network-DataOrderWrapperCell/network-X/model-GPTModel"


@pytest.mark.parametrize(
    ("scope", "place"),
    [
        ("Default/network-LlamaForCausalLM/model-LlamaModel/layers-CellList/0-LLamaDecodeLayer", Place("0", "")),
        (
            f"{MODEL}/decoder-TransformerBlock/layers-CellList/11-TransformerLayer/self_attention-SelfAttention/"
            "core_attention-FlashAttention",
            Place("11", "self_attention.core_attention"),
        ),
        (
            f"recompute_{MODEL}/decoder-TransformerBlock/layers-CellList/2-TransformerLayer/mlp-MoELayer/router-TopKRouter",
            Place("2", "mlp.router"),
        ),
        (
            f"Gradients/{MODEL}/decoder-TransformerBlock/layers-CellList/2-TransformerLayer/mlp-MLP/Grad_MatMul",
            Place("2", "mlp"),
        ),
        (
            f"{MODEL}/mtp-MultiTokenPredictionBlock/layers-CellList/0-MultiTokenPredictionLayer/"
            "transformer_layer-TransformerLayer/pre_mlp_layernorm-FusedRMSNorm",
            Place("mtp0", "transformer_layer.pre_mlp_layernorm"),
        ),
        (
            f"{MODEL}/decoder-TransformerBlock/layers-CellList/12-TransformerLayer/mlp-MLP",
            Place("", f"{MODEL}/decoder-TransformerBlock/layers-CellList/12-TransformerLayer/mlp-MLP"),
        ),
        ("Gradients/Default/model-M/layers-CellList/0-Layer/feed_forward-F/Grad_Mul", Place("0", "feed_forward")),
        (f"{MODEL}/output_layer-ColumnParallelLinear", Place("", f"{MODEL}/output_layer-ColumnParallelLinear")),
        ("Default", Place("", "Default")),
        ("", Place("", "")),
    ],
)
def test_places(scope: str, place: Place) -> None:
    assert place_of(scope, num_layers=12) == place


# --- against what is decided ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_no_false_alarm(name: str) -> None:
    num_layers, cfg = CASES[name]
    assert told(decided(cfg, llama(num_layers)), seen(name)) == []


def test_lazy_inline_off() -> None:
    (finding,) = told(decided(LAYER_SWAP, llama(2)), seen("llama_l2_none"))
    assert (finding.rule, finding.origin, finding.severity.value) == (MISSING, at(3), "warning")
    assert "a swap of the whole layer is decided in layers 0-1, but nothing of it is copied" in finding.message
    assert "lazy inline" in finding.hint


def test_every_entry_without_effect_is_told() -> None:
    both = ops(op(FLASH, 1, 0, line=3), op("feed_forward", 1, 0, line=4), op("feed_forward", 2, 1, line=5))
    findings = told(decided(both, llama(2)), seen("llama_l2_none"))
    assert [(f.rule, f.origin.line) for f in findings] == [(MISSING, 3), (MISSING, 4), (MISSING, 5)]


def test_default_strategy_without_effect() -> None:
    cfg = config(2, swap=DefaultSwap(prefetch=1, origin=at(8)))
    (finding,) = told(decided(cfg, llama(2)), seen("llama_l2_none"))
    assert (finding.origin.line, "a swap of attention.flash_attention" in finding.message) == (8, True)


def test_an_operator_that_backward_does_not_read() -> None:
    cfg = ops(op(FLASH, 1, line=4), op(r"feed_forward\.mul", 1, 0, 2, line=6))
    (finding,) = told(decided(cfg, llama(3)), seen("llama_l3_flash_n1"))
    assert (finding.rule, finding.origin.line) == (MISSING, 6)
    assert "feed_forward.mul is decided in layers 0, 2" in finding.message
    assert "backward pass does not read" in finding.hint


def test_an_entry_that_moves_nothing_beside_one_that_does() -> None:
    cfg = ops(op(FLASH, 1, line=4), op(r"attention\.wk", 1, line=5))
    (finding,) = told(decided(cfg, llama(3)), seen("llama_l3_flash_n1"))
    assert (finding.origin.line, "attention.wk is decided in layers 0-2" in finding.message) == (5, True)


def test_cells_of_an_entry_that_moves_other_things() -> None:
    effect = seen("llama_l2_layerswap_n1")
    fewer = replace(effect, moves=tuple(m for m in effect.moves if not m.place.cell.startswith("feed_forward")))
    (finding,) = told(decided(LAYER_SWAP, llama(2)), fewer)
    assert (finding.rule, finding.origin.line) == (MISSING, 3)
    assert "a swap of feed_forward.w1, feed_forward.w2, feed_forward.w3 is decided in layers 0-1" in finding.message


def test_layers_of_other_ranks_are_left_alone() -> None:
    """A pipeline stage computes its own layers only."""
    effect = seen("llama_l2_layerswap_n1")
    first = replace(effect, layers=frozenset({"0"}), moves=tuple(m for m in effect.moves if m.place.layer == "0"))
    assert told(decided(LAYER_SWAP, llama(2)), first) == []


def test_copies_that_nobody_asked_for() -> None:
    (finding,) = told(decided(config(3), llama(3)), seen("llama_l3_flash_n1"))
    assert (finding.rule, finding.origin) == (UNASKED, SECTION)
    assert "attention.flash_attention in layers 0-2: copied to the host" in finding.message


def test_copies_beside_those_asked_for() -> None:
    cfg = ops(op(r"attention\.wq\.cast", 1, line=3))
    findings = told(decided(cfg, llama(2)), seen("llama_l2_layerswap_n1"))
    assert {finding.rule for finding in findings} == {UNASKED}
    assert "attention.wq (Reshape)" in findings[0].message
    assert "more in layers 0-1" in findings[0].message


def test_rule_2_as_documented_is_not_what_2_9_0_does() -> None:
    """By the documentation the recomputed reader voids the swap of the norm's output; the trace shows the copy."""
    documented = Versions(mindspore="2.6.0", mindformers="1.5.0")
    findings = told(decided(FFN_NORM_SWAP, llama(3), documented), seen("llama_l3_ffnnorm_swap_ffn_recompute"))
    assert [(f.rule, "ffn_norm (Cast) in layer 1" in f.message) for f in findings] == [(UNASKED, True)]


def test_memory_planned_ahead() -> None:
    """memory_optimize_level O1: copies are made, but nothing is freed."""
    trace = golden("llama_l3_flash_n1")
    planned = Blocks.of(replace(block, kind="Somas") if block.kind == "Kernel" else block for block in trace.blocks)
    (finding,) = told(decided(FLASH_SWAP, llama(3)), observed(replace(trace, blocks=planned), 3))
    assert (finding.rule, finding.origin) == (MISSING, SECTION)
    assert "O0" in finding.hint


def test_copies_that_parallelism_inserts() -> None:
    """They carry no cell; where any swap is decided it is their cause."""
    effect = seen("llama_l3_flash_n1")
    inserted = Move(place=Place("", "Default"), primitive="Reshape", size_bytes=8, host_bytes=512)
    more = replace(effect, moves=(*effect.moves, inserted))
    assert told(decided(FLASH_SWAP, llama(3)), more) == []
    alone = replace(effect, moves=(inserted,))
    (finding,) = told(decided(config(3), llama(3)), alone)
    assert (finding.rule, "1 tensor in no decoder layer" in finding.message) == (UNASKED, True)


def test_communication_behind_a_swapped_operator() -> None:
    effect = seen("llama_l3_flash_n1")
    gathered = tuple(
        Move(place=Place(layer, "attention.wo"), primitive="AllGather", size_bytes=8, host_bytes=512) for layer in "012"
    )
    assert told(decided(FLASH_SWAP, llama(3)), replace(effect, moves=effect.moves + gathered)) == []


def test_a_cell_that_the_template_does_not_have() -> None:
    """The nearest cell above it answers."""
    deeper = tuple(
        Move(place=Place(layer, "attention.flash_attention.inner"), primitive="Mul", size_bytes=8, host_bytes=512)
        for layer in "012"
    )
    effect = replace(seen("llama_l3_flash_n1"), moves=deeper)
    assert told(decided(FLASH_SWAP, llama(3)), effect) == []
    assert [finding.rule for finding in told(decided(config(3), llama(3)), effect)] == [UNASKED]


def test_a_model_that_is_not_in_the_catalog() -> None:
    layers = tuple(replace(layer, template=replace(layer.template, operators=())) for layer in llama(3).layers)
    unknown = Network(family=None, layers=layers)
    assert told(decided(FLASH_SWAP, unknown), seen("llama_l3_flash_n1")) == []


def test_a_model_that_the_catalog_approximates() -> None:
    """Primitives are not told apart, entries are."""
    near = replace(llama(3), approximated=("rotary_dtype",))
    cfg = ops(op(r"attention\.apply_rotary_emb\.cast", 1, line=3), op(FLASH, 1, line=4))
    effect = seen("llama_l3_flash_n1")
    rotary = Move(place=Place("0", "attention.apply_rotary_emb"), primitive="Add", size_bytes=8, host_bytes=512)
    (finding,) = told(decided(cfg, near), replace(effect, moves=(*effect.moves, rotary)))
    assert "attention.apply_rotary_emb.cast is decided in layers 1-2" in finding.message


def test_layers_of_two_kinds_and_extra_layers() -> None:
    net = network(3)
    extra = replace(net.layers[-1], name="mtp0", template=ROUTED)
    both = replace(net, layers=(*net.layers, extra))
    cfg = config(3, swap=ListedSwap(layer_swap=(whole(1, line=3),), given_entries=1))
    effect = Effect(layers=frozenset({"0", "2", "mtp0"}), moves=(), host_peak_bytes=0)
    (finding,) = told(decided(cfg, both), effect)
    assert "in layers 0, 2, mtp0, but" in finding.message


def test_tables_that_layers_share_are_moved_where_mindspore_keeps_them() -> None:
    """Qwen3's rotary tables are computed in the first layer of a rank only; every layer flags them."""
    strategy = decided(LAYER_SWAP, qwen3(2))
    effect = observed(golden("mcore/qwen3_l2_layerswap_n5"), 2)
    assert told(strategy, effect) == []
    assert effect.launched is not None
    everywhere = frozenset(
        Launch(Place(layer, launch.place.cell), launch.primitive) for launch in effect.launched for layer in ("0", "1")
    )
    (finding,) = told(strategy, replace(effect, launched=everywhere))
    assert (finding.rule, "apply_rotary_pos_emb is decided in layer 1" in finding.message) == (MISSING, True)


def test_a_cell_whose_saved_kernels_all_run_in_another_layer_is_moved_there() -> None:
    """What else of the rotary embedding runs in the layer leaves nothing to the backward pass."""
    cfg = ops(op(r"self_attention\.apply_rotary_pos_emb", 5, 0, 1, line=4))
    strategy = decided(cfg, qwen3(2))
    effect = observed(golden("mcore/qwen3_l2_layerswap_n5"), 2)
    tables = replace(effect, moves=tuple(move for move in effect.moves if "rotary" in move.place.cell))
    assert told(strategy, tables) == []
    here = ("self_attention.apply_rotary_pos_emb", "Cos")
    assert effect.launched is not None
    launched = effect.launched | {Launch(Place("1", here[0]), here[1])}
    (finding,) = told(strategy, replace(tables, launched=launched))
    assert "apply_rotary_pos_emb is decided in layer 1" in finding.message


def test_a_second_table_that_is_one_with_the_first_of_another_layer_is_moved_there() -> None:
    """Latent attention has a rotary embedding for the queries and one for the keys, whose tables are one."""
    templates = catalog.load("deepseek_v3").templates_for({}, 2)
    strategy = decided(
        ops(op(r"self_attention\.apply_rotary.*", 2, 0, 1, line=4)),
        Network(family="deepseek_v3", layers=layers_of(templates)),
    )
    first = Place("0", "self_attention.apply_rotary_emb")
    tables = tuple(Move(place=first, primitive=kind, size_bytes=8, host_bytes=512) for kind in ("Cos", "Sin"))
    launched = frozenset(Launch(first, kind) for kind in ("Cos", "Sin"))
    effect = Effect(layers=frozenset({"0", "1"}), moves=tables, host_peak_bytes=8, launched=launched)
    assert told(strategy, effect) == []
    second = Launch(Place("1", "self_attention.apply_rotary_emb2"), "Cos")
    (finding,) = told(strategy, replace(effect, launched=launched | {second}))
    assert "is decided in layer 1" in finding.message


def test_a_cast_of_a_weight_that_the_parallel_optimizer_gathers() -> None:
    """The dry run tells why nothing of it is copied: the cast has lost its cell."""
    effect = seen("llama_l3_flash_n1")
    assert effect.launched is not None
    cfg = ops(op(FLASH, 1, line=4), op(r"attention\.wo\.cast", 1, line=5))
    kept = frozenset(launch for launch in effect.launched if launch.place.cell != "attention.wo")
    (finding,) = told(decided(cfg, llama(3)), replace(effect, launched=kept - {Launch(Place("", "Default"), "Cast")}))
    assert "gathers" not in finding.hint
    (finding,) = told(decided(cfg, llama(3)), replace(effect, launched=kept | {Launch(Place("", "Default"), "Cast")}))
    assert (finding.origin.line, "gathers" in finding.hint) == (5, True)
    alone = replace(effect, launched=kept | {Launch(Place("", "Default"), "Cast")}, moves=())
    (finding,) = told(decided(ops(op(r"attention\.wo\.cast", 1, line=5)), llama(3)), alone)
    assert "gathers" in finding.hint  # also where nothing else is copied, which has other causes, too


def test_a_view_that_mindspore_has_merged_with_others() -> None:
    """Which views are left depends on the layout: `explain` leaves it open, and the dry run tells."""
    effect = seen("llama_l3_flash_n1")
    assert effect.launched is not None
    cfg = ops(op(FLASH, 1, line=4), op(r"attention\.reshape", 1, line=5))
    kept = {launch for launch in effect.launched if not launch.place.cell.startswith("attention")}
    (finding,) = told(decided(cfg, llama(3)), replace(effect, launched=frozenset(kept)))
    assert (finding.origin.line, "merged these views" in finding.hint) == (5, True)
    (finding,) = told(decided(cfg, llama(3)), replace(effect, launched=None))
    assert "merged" not in finding.hint


def test_a_copy_named_after_the_second_of_two_views_that_are_one() -> None:
    """A Linear views once more what it is handed as a view; MindSpore makes one of the two, named after the Linear."""
    effect = seen("llama_l3_flash_n1")
    copy = Move(place=Place("0", "attention.wo"), primitive="Reshape", size_bytes=8, host_bytes=512)
    found = replace(effect, layers=frozenset({"0"}), moves=(copy,), launched=None)
    assert told(decided(ops(op(r"attention\.reshape", 1, line=5)), llama(3)), found) == []
    other = ops(op(r"attention\.wq\.reshape", 1, line=5))
    assert UNASKED in {finding.rule for finding in told(decided(other, llama(3)), found)}


def test_a_view_that_has_lost_its_cell_is_told_by_what_it_views() -> None:
    """MindSpore copies the Reshape in front of a Linear's MatMul, whose name is that of no cell."""
    strategy = decided(ops(op(r"self_attention\.linear_proj", 5, 0, 1, line=4)), qwen3(2))
    effect = observed(golden("mcore/qwen3_l2_layerswap_n5"), 2)
    views = tuple(move for move in effect.moves if not move.place.layer and move.primitive == "Reshape")
    assert {move.behind for move in views} == {Place(name, "self_attention.core_attention") for name in ("0", "1")}
    assert told(strategy, replace(effect, moves=views)) == []
    (finding,) = told(strategy, replace(effect, moves=views[:1]))
    assert (finding.rule, "linear_proj is decided in layer 1" in finding.message) == (MISSING, True)


def test_a_view_of_a_swapped_output_is_copied_for_it() -> None:
    """A view that is launched in place of a Transpose writes the tensor that it reads, after what computed it."""
    effect = seen("llama_l3_flash_n1")
    view = Move(place=Place("0", "attention.flash_attention"), primitive="Reshape", size_bytes=8, host_bytes=512)
    (finding,) = told(decided(FLASH_SWAP, llama(3)), replace(effect, moves=(*effect.moves, view)))
    assert (finding.rule, "attention.flash_attention (Reshape) in layer 0" in finding.message) == (UNASKED, True)
    beneath = replace(view, beneath=frozenset({"FlashAttentionScore"}))
    assert told(decided(FLASH_SWAP, llama(3)), replace(effect, moves=(*effect.moves, beneath))) == []


def test_communication_whose_result_backward_does_not_read() -> None:
    """Where it stands depends on the layout: the dry run tells, and says it rather than to look for the operator."""
    cfg = ops(op(r"self_attention\.linear_proj\.reduce_scatter", 5, 0, 1, line=4))
    strategy = decided(cfg, qwen3(2))
    effect = observed(golden("mcore/qwen3_l2_layerswap_n5"), 2)
    (finding,) = told(strategy, replace(effect, moves=()))
    assert (finding.rule, "what this communication writes" in finding.hint) == (MISSING, True)
