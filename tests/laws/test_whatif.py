"""More swap never raises what is in use outside the windows of the tensors that move: from the copy out until the
release, and from the copy back until the last use."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swapconf.decide.strategy import Strategy
from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import CATEGORIES, Category, Usage
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import predict
from swapconf.whatif.prediction import Prediction
from swapconf.whatif.prepare import prepare
from tests.helpers import EXAMPLE, golden, strategy_of

OPERATORS = (
    r"attention\.wq",
    r"attention\.wk",
    r"attention\.wv",
    r"attention\.wo",
    "attention_norm",
    "ffn_norm",
    "add",
    r"attention\.flash_attention",
    r"feed_forward\.w1",
    r"feed_forward\.w2",
    r"feed_forward\.w3",
)
entries = st.lists(
    st.tuples(st.sampled_from(OPERATORS), st.integers(1, 300)), min_size=1, max_size=6, unique_by=lambda entry: entry[0]
)


@cache
def strategy(chosen: tuple[tuple[str, int], ...]) -> Strategy:
    listed = ", ".join(
        f"{{op_name: '{name}', backward_prefetch: {prefetch}, layers: True}}" for name, prefetch in chosen
    )
    return strategy_of(EXAMPLE, "model.model_config.num_layers=2", f"swap_config={{swap: True, op_swap: [{listed}]}}")


@cache
def prepared() -> PlacedBaseline:
    return placed(prepare(golden("llama_l2_none")), strategy(()).network)


def ask(chosen: list[tuple[str, int]]) -> Prediction:
    return predict(prepared(), strategy(tuple(chosen)))


def windows(found: Prediction) -> list[tuple[int, int, int]]:
    moves = found.moves
    return [
        *zip(moves.returned.tolist(), moves.end.tolist(), moves.size_bytes.tolist(), strict=True),
        *zip(moves.copied.tolist(), moves.released.tolist(), moves.size_bytes.tolist(), strict=True),
    ]


def level(used: Usage, moments: Ints) -> Ints:
    return np.asarray(used.bytes_after[np.searchsorted(used.time, moments, side="right") - 1])


def births(found: Prediction) -> list[int]:
    """Of all blocks but those that come back from the host."""
    return sorted(found.device.start[found.device.category != CATEGORIES.index(Category.SWAP)].tolist())


@given(entries)
def test_more_swap_never_raises_what_is_in_use_outside_the_windows(chosen: list[tuple[str, int]]) -> None:
    more, less = ask(chosen), ask(chosen[:-1])
    if births(more) != births(less):  # a copy back that reaches so far lets kernels of the loss run earlier
        return
    moments = np.unique(np.concatenate([more.device.used.time, less.device.used.time]))
    open_bytes = np.zeros(len(moments), dtype=np.int64)
    for start, end, size in set(windows(more)) - set(windows(less)):
        open_bytes += np.where((moments >= start) & (moments < end), size, 0)
    assert np.all(level(more.device.used, moments) <= level(less.device.used, moments) + open_bytes)


@given(entries)
def test_a_tensor_that_moved_is_not_on_the_device_between_its_windows(chosen: list[tuple[str, int]]) -> None:
    moves = ask(chosen).moves
    assert np.all(moves.copied < moves.returned)
    assert np.all(moves.returned < moves.used)
    assert np.all(moves.used < moves.end)


@given(entries)
def test_host_memory_is_what_is_on_its_way(chosen: list[tuple[str, int]]) -> None:
    found = ask(chosen)
    assert found.moves.host.bytes_after[-1] == 0 if len(found.moves) else found.moves.host.peak_bytes == 0
    assert 0 <= found.moves.host.peak_bytes <= found.moves.host_bytes.sum()
