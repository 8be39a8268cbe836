from __future__ import annotations

from swapconf.config.config import Config, DefaultSwap, LayerCounts, ListedSwap, RecomputeConfig, SelectRecompute
from swapconf.decide.log_lines import lines
from tests.unit.networks import config
from tests.unit.test_expand import at, full, op, ops, select, strategy, whole


def logged(cfg: Config) -> list[str]:
    result = strategy(cfg)
    return [line for entry in result.layers for line in lines(entry, result.swap_on)]


def test_default_strategy() -> None:
    assert logged(config(num_layers=4, swap=DefaultSwap(prefetch=10, origin=at(1)))) == [
        f"Set op_swap at layer {layer}: attention.flash_attention, value=10" for layer in range(4)
    ]


def test_layer_swap() -> None:
    assert logged(config(swap=ListedSwap(layer_swap=(whole(20, 0, 3),), given_entries=1))) == [
        "Set layer swap at layer 0 and value is: 20",
        "Set layer swap at layer 3 and value is: 20",
    ]


def test_documented_example_4() -> None:
    swaps = (op("attention", 20, 0, 1, 2), op("attention", 10, 3), op("feed_forward", 15, 1, 2))
    assert logged(ops(*swaps, recompute=RecomputeConfig(select=(select("feed_forward", 0, 3),)))) == [
        "Set select recompute at layer 0: feed_forward",
        "Set op_swap at layer 0: .attention, value=20",
        "Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
        "Set op_swap at layer 2: .attention, value=20, .feed_forward, value=15",
        "Set select recompute at layer 3: feed_forward",
        "Set op_swap at layer 3: .attention, value=10",
    ]


def test_nested_and_top_level_names_in_one_line() -> None:
    assert logged(ops(op("add", 2, 0), op(r".*\.w.", 3, 0))) == [
        "Set op_swap at layer 0: .add, value=2, attention.wq, value=3, feed_forward.w2, value=3"
    ]


def test_what_is_void_is_logged_as_skipped_with_the_rule() -> None:
    swaps = (op("attention", 20, 1), op("feed_forward", 15, 1))
    assert logged(ops(*swaps, recompute=RecomputeConfig(select=(select("feed_forward", 1),)))) == [
        "Set select recompute at layer 1: feed_forward",
        "Set op_swap at layer 1: .attention, value=20",
        "Skip op_swap at layer 1: .feed_forward, feed_forward is recomputed, and recompute wins over swap "
        "[R1-recompute-wins]",
    ]


def test_a_layer_that_is_recomputed_skips_its_layer_swap() -> None:
    assert logged(
        config(swap=ListedSwap(layer_swap=(whole(5, 1),), given_entries=1), recompute=RecomputeConfig(full=full(1)))
    ) == [
        "Set full recompute at layer 1",
        "Skip layer swap at layer 1: the whole layer is recomputed, and recompute wins over swap [R1-recompute-wins]",
    ]


def test_with_swap_off_mindformers_writes_on() -> None:
    counted = SelectRecompute(
        pattern="feed_forward", layers=LayerCounts(counts=((1,),), per_interleave=False), origin=at(1)
    )
    assert logged(config(recompute=RecomputeConfig(select=(counted,)))) == [
        "Set select recompute on at layer 0: feed_forward"
    ]


def test_communication_and_exclusion() -> None:
    recompute = RecomputeConfig(
        select_comm=(select(r".*\.norm", 0),),
        select_exclude=(select(r"feed_forward\.mul", 0),),
        select_comm_exclude=(select(r"norm\.cast", 0),),
    )
    assert logged(ops(recompute=recompute)) == [
        "Set select comm recompute at layer 0: norm.norm",
        "Set select recompute exclude at layer 0: feed_forward.mul",
        "Set select comm recompute exclude at layer 0: norm.cast",
    ]


def test_no_line_has_a_run_of_spaces() -> None:
    swaps = (op("attention", 20), op(r".*\.w2", 3), op("add", 1))
    assert not [line for line in logged(ops(*swaps, recompute=RecomputeConfig(full=full(2)))) if "  " in line]
