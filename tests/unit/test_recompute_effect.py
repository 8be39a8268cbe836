"""What the golden traces recompute, and how that compares with what their configs decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest

from swapconf.config.config import Config, RecomputeConfig
from swapconf.decide.strategy import Strategy
from swapconf.dryrun.effect.compare_recompute import MISSING, UNDECIDED, compare
from swapconf.dryrun.effect.effect import Effect, Held, Launch, observed
from swapconf.dryrun.effect.recompute_effect import _homes
from swapconf.dryrun.fold.extrapolation import extrapolated
from swapconf.dryrun.fold.folding import Fold, LayerRow, Size
from swapconf.dryrun.fold.samples import Sample
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.verdict import Peaks, verdict
from swapconf.models.network import Network
from swapconf.trace.blocks import Blocks
from swapconf.trace.phases import Phase, _recomputed
from swapconf.trace.trace import Task, Trace, WorkerLog
from swapconf.upstream.scopes import Place, in_layer
from swapconf.whatif.prepare import prepare
from swapconf.words.findings import Finding
from tests.helpers import TRACES, golden, study_of
from tests.unit.networks import config
from tests.unit.test_effect import FFN_NORM_SWAP, FLASH_SWAP, LAYER_SWAP, SECTION, decided, llama, qwen3
from tests.unit.test_expand import full, op, ops, select

ALL = config(2, recompute=RecomputeConfig(full=full()))
FFN = "llama_l3_ffnnorm_swap_ffn_recompute"
CASES = {
    "llama_l2_layerswap_n1": (2, LAYER_SWAP),
    "llama_l2_none": (2, config(2)),
    "llama_l2_recompute": (2, ALL),
    FFN: (3, FFN_NORM_SWAP),
    "llama_l3_flash_n1": (3, FLASH_SWAP),
}
NORM_CASTS = 2  # in each layer the model itself recomputes the cast before each of its norms


@cache
def seen(name: str) -> Effect:
    return observed(golden(name), num_layers=CASES[name][0])


def told(strategy: Strategy, effect: Effect) -> list[Finding]:
    return list(compare(strategy, effect, SECTION))


def rules(cfg: Config, name: str) -> list[tuple[str, str]]:
    return [(f.rule, f.message) for f in told(decided(cfg, llama(CASES[name][0])), seen(name))]


def feed_forward(*layers: int, swapped: bool = True) -> Config:
    recompute = RecomputeConfig(select=(select("feed_forward", *layers),))
    return ops(op("ffn_norm", 1), recompute=recompute) if swapped else config(3, recompute=recompute)


def with_layers(trace: Trace, new: Mapping[int, int]) -> Trace:
    """The same with other layers: new number by old one."""

    def renamed(name: str) -> str:
        return re.sub(r"(layers-CellList/)(\d+)", lambda found: f"{found[1]}{new[int(found[2])]}", name)

    return replace(
        trace,
        kernels=tuple(replace(item, name=renamed(item.name)) for item in trace.kernels),
        tasks=tuple(replace(item, name=renamed(item.name)) for item in trace.tasks),
    )


# --- what is recomputed ---------------------------------------------------------------------------------------------


def test_a_whole_layer_without_its_output_and_without_views() -> None:
    effect = seen("llama_l2_recompute")
    assert effect.recomputed_by_layer == {"1": 32, "0": 32}
    of_layer = {
        (launch.place.cell, launch.primitive): count
        for launch, count in effect.recomputed_by_operator.items()
        if launch.place.layer == "0"
    }
    assert of_layer["", "Add"] == 1  # of two; the other one writes the output
    assert ("feed_forward.w2", "MatMul") not in of_layer
    assert of_layer["attention.wo", "AllReduce"] == 1
    assert of_layer["attention.flash_attention", "FlashAttentionScore"] == 1


def test_only_one_cell_of_one_layer() -> None:
    effect = seen(FFN)
    assert effect.recomputed_by_layer == {"2": NORM_CASTS, "1": NORM_CASTS + 7, "0": NORM_CASTS}
    cells = {launch.place.cell for launch in effect.recomputed or () if launch.place.layer == "1"}
    assert {cell for cell in cells if "norm" not in cell} == {
        "feed_forward",
        "feed_forward.w1",
        "feed_forward.w1.activation",
        "feed_forward.w2",
        "feed_forward.w3",
    }


@pytest.mark.parametrize("name", ["llama_l2_none", "llama_l2_layerswap_n1", "llama_l3_flash_n1"])
def test_without_recompute_only_what_the_model_itself_recomputes(name: str) -> None:
    effect = seen(name)
    assert set(effect.recomputed_by_layer.values()) == {NORM_CASTS}
    assert {launch.primitive for launch in effect.recomputed or ()} == {"Cast"}


@pytest.mark.parametrize("name", ["mcore/qwen3_l2_none", "mcore/qwen3_l2_layerswap_n5"])
def test_an_mcore_model_recomputes_views_only_which_count_nothing(name: str) -> None:
    assert observed(golden(name), 2).recomputed == ()


def test_steps_count_once() -> None:
    once = golden(FFN)
    twice = observed(replace(once, kernels=once.kernels * 2, tasks=once.tasks * 2), 3)
    assert (twice.recomputed, twice.held) == (seen(FFN).recomputed, seen(FFN).held)


def test_what_is_recomputed_is_not_held_for_the_backward_pass() -> None:
    def flash(effect: Effect) -> set[str]:
        return {held.place.layer for held in effect.held if held.primitive == "FlashAttentionScore"}

    assert flash(seen("llama_l2_none")) == {"0", "1"}
    assert flash(seen("llama_l2_recompute")) == set()
    assert flash(seen("llama_l2_layerswap_n1")) == {"0", "1"}  # on the host


def fed_anew(trace: Trace, layer: int, primitive: str) -> Trace:
    """A recomputed layer reads its input through another kernel, as with recompute_slice_activation."""
    at = next(
        index
        for index, task in enumerate(trace.tasks)
        if re.search(rf"/{layer}-LLamaDecodeLayer/attention_norm-LlamaRMSNorm/Cast-op2$", task.name)
    )
    first = trace.tasks[at]
    kernel = next(index for index, item in enumerate(trace.kernels) if item.name == first.name)
    name, tensor = f"Default/{primitive}-op99", first.input_tensors[0]
    made = replace(
        first,
        event=first.event - 1,
        name=name,
        inputs=first.inputs[:1],
        outputs=(first.event - 1,),
        input_tensors=(tensor,),
        output_tensors=(tensor,),
    )
    fed = replace(first, inputs=(made.event, *first.inputs[1:]))
    block = replace(
        next(block for block in trace.blocks if block.start == first.event),
        start=made.event,
        node=name,
        task=made.event,
        users=(first.event,),
    )
    new = replace(trace.kernels[kernel], name=name, primitive=primitive, inputs=())
    return replace(
        trace,
        blocks=Blocks.of([*trace.blocks, block]),
        tasks=(*trace.tasks[:at], made, fed, *trace.tasks[at + 1 :]),
        kernels=(*trace.kernels[:kernel], new, *trace.kernels[kernel:]),
    )


@pytest.mark.parametrize("primitive", ["AllGather", "Mystery"])
def test_a_layer_is_recomputed_from_another_tensor_than_its_input(primitive: str) -> None:
    effect = observed(fed_anew(golden("llama_l2_recompute"), 1, primitive), 2)
    assert effect.recomputed_by_layer == seen("llama_l2_recompute").recomputed_by_layer
    assert told(decided(ALL, llama(2)), effect) == []


def test_what_runs_again_and_nobody_reads_is_recomputed_all_the_same() -> None:
    """As what is made for a product that is excluded from recompute, and whose gradient reads other things alone."""
    trace = golden("llama_l2_recompute")
    phases_of = dict(zip((task.event for task in trace.step_tasks), trace.step_phases, strict=True))
    unread = next(
        block
        for block in trace.blocks
        if phases_of.get(block.start) is Phase.RECOMPUTED
        and "-LLamaDecodeLayer/" in block.node
        and not block.node.endswith("/RmsNorm-op1")  # of two outputs
        and {phases_of.get(user) for user in block.users if user > block.start} == {Phase.BACKWARD}
    )
    blocks = (replace(block, users=()) if block.start == unread.start else block for block in trace.blocks)
    assert replace(trace, blocks=Blocks.of(blocks)).step_phases == tuple(phases_of.values())


def test_without_the_graph_nothing_is_known_nor_told() -> None:
    effect = observed(replace(golden("llama_l2_none"), tasks=()), 2)
    assert (effect.recomputed, effect.recomputed_by_layer) == (None, {})
    assert told(decided(ALL, llama(2)), effect) == []


def test_a_graph_that_is_cut_off_is_none() -> None:
    whole = golden("llama_l2_recompute")
    assert observed(replace(whole, tasks=whole.tasks[:-100]), 2).recomputed is None


# --- against what is decided ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_no_false_alarm(name: str) -> None:
    assert rules(CASES[name][1], name) == []


@pytest.mark.parametrize("name", ["mcore/qwen3_l2_none", "mcore/qwen3_l2_layerswap_n5"])
def test_no_false_alarm_on_an_mcore_model(name: str) -> None:
    net = qwen3(2)
    effect = observed(golden(name), 2)
    assert told(decided(LAYER_SWAP if "swap" in name else config(2), net), effect) == []
    ((rule, line),) = [(found.rule, found.origin.line) for found in told(decided(ALL, net), effect)]
    assert (rule, line) == (MISSING, 9)


@pytest.mark.parametrize("ran", list(permutations(range(3))), ids=str)
def test_a_recompute_that_ran_in_another_layer_is_told_twice(ran: tuple[int, ...]) -> None:
    """``ran``: the number that each layer gets; feed_forward is decided in layer 1."""
    effect = observed(with_layers(golden(FFN), dict(enumerate(ran))), 3)
    findings = told(decided(feed_forward(1), llama(3)), effect)
    if ran[1] == 1:
        assert findings == []
        return
    missing, undecided = sorted(findings, key=lambda found: found.rule, reverse=True)
    assert (missing.rule, missing.origin.line, missing.severity.value) == (MISSING, 9, "warning")
    assert "a recompute of feed_forward is decided in layer 1, but nothing of it is recomputed" in missing.message
    assert (undecided.rule, undecided.origin) == (UNDECIDED, SECTION)
    assert f"feed_forward.w3 (MatMul) in layer {ran[1]}: recomputed" in undecided.message


def test_nothing_is_recomputed() -> None:
    assert rules(ALL, "llama_l2_none") == [
        (MISSING, "a recompute of the whole layer is decided in layers 0-1, but nothing of it is recomputed")
    ]


def test_all_is_recomputed_and_nothing_decided() -> None:
    ((rule, message),) = rules(config(2), "llama_l2_recompute")
    assert rule == UNDECIDED
    assert "more in layers 0-1: recomputed, but no recompute is decided there" in message


def test_operators_of_a_layer_that_stay() -> None:
    """The whole layer 1 is decided, its feed_forward only was recomputed."""
    ((rule, message),) = rules(config(3, recompute=RecomputeConfig(full=full(1))), FFN)
    assert rule == MISSING
    assert "attention_norm (RmsNorm)" in message
    assert "in layer 1: a recompute is decided, but the backward pass reads what the forward pass computed" in message
    assert "feed_forward" not in message


def test_one_entry_of_two() -> None:
    both = RecomputeConfig(select=(select("feed_forward", 1), select("attention", 1, line=7)))
    (finding,) = told(decided(config(3, recompute=both), llama(3)), seen(FFN))
    assert (finding.rule, finding.origin.line) == (MISSING, 7)
    assert "a recompute of attention is decided in layer 1" in finding.message


def test_operators_beside_those_decided() -> None:
    ((rule, message),) = rules(config(3, recompute=RecomputeConfig(select=(select(r"feed_forward\.w1", 1),))), FFN)
    assert rule == UNDECIDED
    assert "feed_forward.w3 (MatMul)" in message
    assert "feed_forward.w1 " not in message


def test_an_operator_that_is_excluded_stays() -> None:
    pattern = r"attention\.flash_attention\.flash_attention"
    cfg = config(2, recompute=RecomputeConfig(full=full(), select_exclude=(select(pattern),)))
    ((rule, message),) = rules(cfg, "llama_l2_recompute")
    assert (rule, message.partition(" in layers")[0]) == (UNDECIDED, "attention.flash_attention (FlashAttentionScore)")
    assert rules(config(2, recompute=RecomputeConfig(select_exclude=(select(pattern),))), "llama_l2_none") == []


def test_what_a_transpose_shows_that_is_excluded_stays_also_where_it_is_launched_as_a_reshape() -> None:
    """As of one head."""
    tensor = Held(Place("1", "attention.wq"), "MatMul", frozenset({Launch(Place("1", "attention"), "Reshape")}))
    effect = replace(seen("llama_l2_recompute"), held=seen("llama_l2_recompute").held | {tensor})
    (finding,) = told(decided(ALL, llama(2)), effect)
    assert (finding.rule, "attention.wq (MatMul)" in finding.message) == (MISSING, True)
    left_out = RecomputeConfig(full=full(), select_exclude=(select(r"attention\.transpose"),))
    assert MISSING not in {finding.rule for finding in told(decided(config(2, recompute=left_out), llama(2)), effect)}


@pytest.mark.parametrize("pattern", [r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"])
def test_what_nobody_reads_in_the_backward_pass_is_not_missed(pattern: str) -> None:
    """`recompute-nothing` has told that before the run."""
    assert rules(config(2, recompute=RecomputeConfig(select=(select(pattern),))), "llama_l2_none") == []


def test_the_output_of_a_recomputed_cell_stays() -> None:
    """In the trace the next cell reads it, and the gradient of that; so it is with attention_norm alone."""
    output = Held(Place("1", "feed_forward.w2"), "MatMul", frozenset({Launch(Place("1", ""), "Add")}))
    inner = replace(output, readers=frozenset({Launch(Place("1", "feed_forward"), "Mul")}))
    strategy = decided(feed_forward(1), llama(3))
    assert told(strategy, replace(seen(FFN), held=seen(FFN).held | {output})) == []
    (finding,) = told(strategy, replace(seen(FFN), held=seen(FFN).held | {inner}))
    assert "feed_forward.w2 (MatMul) in layer 1" in finding.message


def test_what_mindspore_2_7_casts_for_a_product_stays() -> None:
    place = Place("1", "attention_norm")
    cast = Held(place, "Cast", frozenset({Launch(place, "Mul")}))
    others = Held(place, "Cast", frozenset({Launch(place, "Mul"), Launch(place, "Concat")}))

    def missed(held: Held, *, stay: bool) -> bool:
        strategy = replace(decided(ALL, llama(2)), casts_stay=stay)
        effect = replace(seen("llama_l2_recompute"), held=seen("llama_l2_recompute").held | {held})
        return any(finding.rule == MISSING for finding in told(strategy, effect))

    assert missed(cast, stay=False)
    assert not missed(cast, stay=True)
    assert missed(others, stay=True)


def test_the_output_of_a_recomputed_cell_stays_where_an_operator_in_it_is_selected_too() -> None:
    silu = r"feed_forward\.w1\.activation\.silu"
    place, outer = Place("1", "feed_forward.w1.activation"), Launch(Place("1", "feed_forward"), "Mul")
    output = Held(place, "SiLU", frozenset({outer}))
    inner = replace(output, readers=frozenset({Launch(Place("1", "feed_forward.w1"), "Mul")}))

    def missed(held: Held, *patterns: str) -> list[str]:
        chosen = RecomputeConfig(select=tuple(select(pattern, 1) for pattern in patterns))
        effect = replace(seen(FFN), held=frozenset({held}))
        return [f.message for f in told(decided(config(3, recompute=chosen), llama(3)), effect) if f.rule == MISSING]

    assert missed(output, silu, r"feed_forward\.w1") == []
    assert missed(inner, silu, r"feed_forward\.w1") != []
    assert missed(output, silu) != []


@pytest.mark.parametrize("primitive", ["Mul", "SiLU"])
def test_what_stands_among_recomputed_kernels_of_one_layer_is_of_that_layer_whatever_it_is_named_after(
    primitive: str,
) -> None:
    """As MindSpore names the slices of GLM's rotary embedding; layer 0 is not recomputed, so that it would be strange
    there."""
    trace = golden(FFN)
    old = next(
        task
        for task, phase in zip(trace.step_tasks, trace.step_phases, strict=True)
        if phase is Phase.RECOMPUTED and "/1-LLama" in task.name and task.primitive == primitive
    )
    name = old.name.replace("/1-LLama", "/0-LLama")
    misnamed = replace(
        trace,
        tasks=tuple(replace(task, name=name) if task.name == old.name else task for task in trace.tasks),
        kernels=tuple(replace(kernel, name=name) if kernel.name == old.name else kernel for kernel in trace.kernels),
    )
    assert misnamed.tasks != trace.tasks
    assert observed(misnamed, num_layers=3).recomputed == seen(FFN).recomputed


def test_what_stands_beside_misnamed_kernels_is_not_of_the_layer_that_those_are_named_after() -> None:
    """As the Transpose of GLM, named after its own layer, in front of what is named after layer 0."""
    near = {1: {2}, 2: {1, 3}, 3: {2, 4}, 4: {3}}
    rows, layer = {1: 1, 2: 2, 3: 2, 4: 4}, {1: "1", 2: "0", 4: "1"}  # 4 reads a weight of layer 1
    assert _homes(near, rows, layer, own={4}) == {1: "1", 2: "1"}


def test_of_two_views_in_a_row_the_first_one_may_keep_what_it_shows() -> None:
    """The Reshape at the end of wq is left out; MindSpore merges it with that of the attention, which is not."""
    summed = Held(Place("0", "attention.wq"), "MatMul", frozenset({Launch(Place("0", "attention"), "Reshape")}))
    effect = seen("llama_l2_recompute")
    held = replace(effect, held=effect.held | {summed})
    (finding,) = told(decided(ALL, llama(2)), held)
    assert "attention.wq (MatMul) in layer 0" in finding.message
    without = replace(ALL, recompute=replace(ALL.recompute, select_exclude=(select(r"attention\.wq\.reshape"),)))
    assert told(decided(without, llama(2)), held) == []


def test_communication_may_be_kept() -> None:
    effect = seen("llama_l2_recompute")
    reduced = Held(Place("0", "attention.wo"), "AllReduce", frozenset({Launch(Place("0", "attention.wo"), "Reshape")}))
    kept = replace(
        effect,
        held=effect.held | {reduced},
        recomputed=tuple(launch for launch in effect.recomputed or () if launch.primitive != "AllReduce"),
    )
    assert len(told(decided(ALL, llama(2)), kept)) == 1
    without = replace(ALL, recompute=replace(ALL.recompute, mp_comm_recompute=False))
    assert told(decided(without, llama(2)), kept) == []


def test_what_a_reshape_shows_may_be_kept_where_communication_is() -> None:
    """MindSpore takes a Reshape for a change of layout, as which it does not recompute it then."""
    effect = seen("llama_l2_recompute")
    shown = Held(Place("0", "feed_forward.w3"), "MatMul", frozenset({Launch(Place("0", "feed_forward.w3"), "Reshape")}))
    kept = replace(effect, held=effect.held | {shown})
    (finding,) = told(decided(ALL, llama(2)), kept)
    assert "feed_forward.w3 (MatMul) in layer 0" in finding.message
    without = replace(ALL, recompute=replace(ALL.recompute, mp_comm_recompute=False))
    assert told(decided(without, llama(2)), kept) == []


def test_communication_of_what_is_not_decided() -> None:
    gathered = Launch(Place("0", "attention.wo"), "AllReduce")
    effect = replace(seen("llama_l2_none"), recomputed=(gathered,))
    (finding,) = told(decided(config(2), llama(2)), effect)
    assert "attention.wo (AllReduce) in layer 0: recomputed" in finding.message
    comm = config(2, recompute=RecomputeConfig(select_comm=(select(r"attention\.wo\.matmul"),)))
    assert told(decided(comm, llama(2)), effect) == []


def test_communication_that_is_decided_and_not_recomputed() -> None:
    cfg = config(2, recompute=RecomputeConfig(select_comm=(select(r".*_norm\.norm", 1),)))
    gathered = Held(Place("1", "attention.wv"), "AllGather", frozenset({Launch(Place("1", "attention.wq"), "MatMul")}))
    plain = seen("llama_l2_none")
    effect = replace(plain, held=plain.held | {gathered})
    (finding,) = told(decided(cfg, llama(2)), effect)
    assert (finding.rule, finding.origin.line) == (MISSING, 9)
    assert (
        "a recompute of the communication behind ffn_norm.norm, attention_norm.norm is decided in layer 1, but no "
        "communication is recomputed there"
    ) in finding.message
    again = replace(effect, recomputed=(*(plain.recomputed or ()), Launch(gathered.place, "AllGather")))
    assert told(decided(cfg, llama(2)), again) == []
    excluded = replace(cfg, recompute=replace(cfg.recompute, select_comm_exclude=(select(r".*_norm\.norm", 1),)))
    assert told(decided(excluded, llama(2)), effect) == []
    assert told(decided(cfg, llama(2)), plain) == []  # no communication is read by the backward pass


def test_a_reshape_of_what_is_recomputed_needs_no_communication() -> None:
    """MindSpore marks it as it marks communication."""
    beside = RecomputeConfig(select_comm=(select(r"feed_forward\.w2\.reshape", 1),))
    handed = replace(beside, select=(select(r"feed_forward\.mul", 1),))
    gathered = Held(Place("1", "attention.wv"), "AllGather", frozenset({Launch(Place("1", "attention.wq"), "MatMul")}))
    plain = seen("llama_l2_none")
    effect = replace(plain, held=plain.held | {gathered})
    (finding,) = told(decided(config(2, recompute=beside), llama(2)), effect)
    assert "communication behind feed_forward.w2.reshape" in finding.message
    rest = told(decided(config(2, recompute=handed), llama(2)), effect)
    assert not any("communication" in finding.message for finding in rest)


def test_slices_beside_communication_that_was_asked_for_run_again_with_it() -> None:
    """What changes a layout in front of flash attention: not decided by itself, and no operator of its cell."""
    flash = "attention.flash_attention"
    plain = seen("llama_l2_none")
    sliced = replace(plain, recomputed=(*(plain.recomputed or ()), Launch(Place("1", flash), "StridedSlice")))
    (finding,) = told(decided(config(2), llama(2)), sliced)
    assert f"{flash} (StridedSlice) in layer 1: recomputed, but no recompute is decided there" in finding.message
    asked = RecomputeConfig(select_comm=(select(r"attention\.flash_attention\.flash_attention", 1),))
    assert not [
        found for found in told(decided(config(2, recompute=asked), llama(2)), sliced) if found.rule == UNDECIDED
    ]


def test_layers_of_other_ranks_are_left_alone() -> None:
    """A pipeline stage computes its own layers only."""
    effect = replace(seen("llama_l2_recompute"), layers=frozenset({"1"}))
    assert told(decided(config(2, recompute=RecomputeConfig(full=full(1))), llama(2)), effect) == []


def test_what_stands_in_no_layer_is_the_models_own() -> None:
    effect = seen("llama_l2_none")
    outside = Launch(Place("", "Default/network-LlamaForCausalLM/model-LlamaModel/norm_out-LlamaRMSNorm"), "Cast")
    assert outside in (effect.recomputed or ())
    assert rules(config(2), "llama_l2_none") == []


def test_a_model_that_is_not_in_the_catalog() -> None:
    layers = tuple(replace(layer, template=replace(layer.template, operators=())) for layer in llama(2).layers)
    assert told(decided(ALL, Network(family=None, layers=layers)), seen("llama_l2_none")) == []


def test_a_model_that_the_catalog_approximates() -> None:
    """Primitives are not told apart, entries are."""
    near = replace(llama(3), approximated=("rotary_dtype",))
    assert told(decided(config(3, recompute=RecomputeConfig(full=full(1))), near), seen(FFN)) == []
    (finding,) = told(decided(feed_forward(2, swapped=False), near), seen("llama_l3_flash_n1"))
    assert "a recompute of feed_forward is decided in layer 2, but nothing of it is recomputed" in finding.message


def test_layers_that_no_run_had_recompute_what_the_others_do() -> None:
    plan = Fold(rows=(LayerRow(0, 10),), whole=Size((10,), 1), small=Size((4,), 1), steps=(Size((6,), 1),))

    def made(layers: Iterable[int]) -> Effect:
        places = [Place(str(index), "feed_forward") for index in layers]
        return Effect(
            layers=frozenset(place.layer for place in places),
            moves=(),
            host_peak_bytes=0,
            recomputed=tuple(Launch(place, "Mul") for place in places),
            held=frozenset(Held(place, "Add", frozenset({Launch(place, "Mul")})) for place in places),
        )

    samples = [
        Sample(
            size=size,
            highest={("Default", "0"): 1},
            used_peak_bytes=1,
            with_fragments_peak_bytes=1,
            effect=made(plan.kept(size)),
        )
        for size in plan.runs
    ]
    whole = extrapolated(samples, plan, plan.whole).effect
    every = made(range(10))
    assert whole.recomputed_by_layer == every.recomputed_by_layer
    assert (whole.layers, whole.held) == (every.layers, every.held)


def test_a_report_counts_what_runs_again_in_no_layer_too() -> None:
    effect = seen("llama_l2_none")
    blank = RankReport(file="train.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED)
    peaks = Peaks(used_bytes=1, with_fragments_bytes=1, reserved_bytes=None)
    report = verdict(blank, study_of(TRACES / "llama.yaml"), WorkerLog(), peaks, effect)
    assert report.recomputed is not None
    assert report.recomputed[-1].layer == ""
    assert sum(item.kernels for item in report.recomputed) == len(effect.recomputed or ()) == 2 * NORM_CASTS + 1


def test_what_is_named_after_no_layer_grows_with_layers_and_micro_batches_or_with_neither() -> None:
    """MindSpore names the exchange of tokens of experts after no layer: it runs again in each layer of each
    micro-batch, a cast behind the layers once."""
    plan = Fold(
        rows=(LayerRow(0, 10),), whole=Size((10,), 16), small=Size((4,), 5), steps=(Size((6,), 5), Size((4,), 6))
    )
    exchanged, cast = Launch(Place("", "mlp"), "AlltoAllV"), Launch(Place("", "norm_out"), "Cast")

    def made(size: Size) -> Effect:
        count = size.layers[0] * size.micro_batches
        return Effect(layers=frozenset(), moves=(), host_peak_bytes=0, recomputed=(*[exchanged] * count, cast))

    samples = [
        Sample(
            size=size, highest={("Default", "0"): 1}, used_peak_bytes=1, with_fragments_peak_bytes=1, effect=made(size)
        )
        for size in plan.runs
    ]
    again = extrapolated(samples, plan, plan.whole).effect.recomputed_by_operator
    assert again == {exchanged: 160, cast: 1}


def test_what_only_the_first_layer_of_a_row_does_stays_with_it_in_all_micro_batches() -> None:
    """The smallest run has no layer in the middle of the row: what micro-batches add there follows the layer itself."""
    plan = Fold(
        rows=(LayerRow(0, 10),), whole=Size((10,), 256), small=Size((2,), 9), steps=(Size((3,), 9), Size((2,), 10))
    )

    def made(size: Size) -> Effect:
        again = [Launch(Place(str(index), "norm"), "Mul") for index in plan.kept(size)]
        first = Launch(Place("0", "norm"), "Cast")
        return Effect(
            layers=frozenset(map(str, plan.kept(size))),
            moves=(),
            host_peak_bytes=0,
            recomputed=tuple([*reversed(again), first] * size.micro_batches),
        )

    samples = [
        Sample(
            size=size, highest={("Default", "0"): 1}, used_peak_bytes=1, with_fragments_peak_bytes=1, effect=made(size)
        )
        for size in plan.runs
    ]
    told = extrapolated(samples, plan, plan.whole).effect
    assert told.recomputed_by_operator == made(plan.whole).recomputed_by_operator


# --- phases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama_l2_none", "mcore/qwen3_l2_none"])
def test_the_baseline_of_what_if_has_the_same_gradients_in_layers(name: str) -> None:
    """It takes what is recomputed for them for gradients, too."""
    trace = golden(name)
    baseline = prepare(trace).kernels.backward[trace.step_launches]
    late = [phase in (Phase.BACKWARD, Phase.RECOMPUTED) for phase in trace.step_phases]
    differ = {
        task.name
        for task, one, other in zip(trace.step_tasks, baseline, late, strict=True)
        if one != other and in_layer(task.scope)
    }
    assert differ == set()


def test_a_gradient_that_a_cell_computes_by_hand_is_none_of_what_is_recomputed() -> None:
    """The loss has one (bprop), under its own name: Exp, Sub, Mul."""
    trace = golden("llama_l2_none")
    by_hand = {
        task.primitive
        for task, phase in zip(trace.step_tasks, trace.step_phases, strict=True)
        if phase is Phase.BACKWARD and not task.name.startswith("Gradients/") and "_nllloss" in task.name
    }
    assert by_hand >= {"Exp", "Sub", "Mul"}


def test_a_weight_that_was_gathered_stays_without_lazy_inline() -> None:
    effect = seen("llama_l2_recompute")
    gathered = Held(Place("0", "attention.wo"), "AllGather", frozenset({Launch(Place("0", "attention.wo"), "MatMul")}))
    held = replace(effect, held=effect.held | {gathered})
    weight = replace(effect, held=effect.held | {replace(gathered, of_weights=True)})
    with_it, without = (replace(decided(ALL, llama(2)), lazy_inline=on) for on in (True, False))
    assert [len(told(strategy, held)) for strategy in (with_it, without)] == [1, 1]
    assert [len(told(strategy, weight)) for strategy in (with_it, without)] == [1, 0]


def test_casts_of_weights_are_told_from_those_of_activations() -> None:
    """The weights of the Linears are cast for their products; the norms cast what they read."""
    held = {tensor for tensor in seen("llama_l2_none").held if tensor.primitive == "Cast"}
    linears = {f"attention.w{name}" for name in "qkvo"} | {f"feed_forward.w{number}" for number in (1, 2, 3)}
    assert {tensor.place.cell for tensor in held if tensor.of_weights} == linears
    assert {tensor.place.cell for tensor in held if not tensor.of_weights} == {"attention_norm", "ffn_norm"}


@pytest.mark.parametrize(("twins", "expected"), [((), [False, False, False]), ((2,), [False, True, True])])
def test_what_only_a_launch_told_by_its_place_reads_is_recomputed_with_it(
    twins: tuple[int, ...], expected: list[bool]
) -> None:
    """1 is computed as 0 was, and 2, which reads it, in another way than anything before; 9 is a gradient that reads 2.
    So with the rotary embedding of GLM whose products are excluded from recompute."""
    scope = "Default/layers-CellList/3-Block/rotary-R"
    tasks = [
        Task(
            event=event,
            name=f"{scope}/{primitive}-op{event}",
            inputs=(),
            outputs=(event,),
            attributes=(),
            input_tensors=(),
            output_tensors=(),
        )
        for event, primitive in enumerate(("Cast", "Cast", "Concat"))
    ]
    users = [(0, ()), (1, (2,)), (2, (9,))]
    assert _recomputed(tasks, [False, True, False], users, {9}, set(twins)) == expected
