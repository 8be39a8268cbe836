"""Traces replayed: peaks, addresses, what is alive and what it is, against what MindSpore 2.9.0 itself recorded."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from swapconf.memory.categories import by_category, holdings_at_peak, operator_of
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import layer_of, lifetimes, scope_of_layer
from swapconf.trace.blocks import Blocks
from swapconf.trace.lifetimes import CATEGORIES, NEVER, Category, Lifetimes, PoolRecord
from swapconf.trace.phases import Phase, phases
from swapconf.words.units import GIB
from tests.helpers import NAMES, TRACES, columns, golden


def peak_of(live: Lifetimes, category: Category) -> int:
    """Bytes of a category at the peak of all."""
    return sum(holding.size_bytes for holding in holdings_at_peak(live) if holding.category is category)


@pytest.mark.parametrize("name", NAMES)
def test_the_used_peak_is_that_of_mindspore(name: str) -> None:
    found = re.search(r"max_alloc (\d+)", (TRACES / name / "expected.txt").read_text(encoding="utf-8"))
    assert found is not None
    assert columns(name).used_peak_bytes == int(found[1])


@pytest.mark.parametrize("name", NAMES)
def test_every_address_and_the_peak_with_fragments_are_those_of_mindspore(name: str) -> None:
    found = replay(golden(name), columns(name))
    assert found.is_exact
    assert found.num_blocks == sum(not block.on_host for block in golden(name).blocks) > 800
    assert found.placement.mapped_bytes == golden(name).with_fragments_peak_bytes


def test_a_moved_block_is_noticed() -> None:
    trace = golden(NAMES[0])
    blocks = list(trace.blocks)
    blocks[500] = replace(blocks[500], address=blocks[500].address + 512)
    assert replay(replace(trace, blocks=Blocks.of(blocks)), columns(NAMES[0])).num_same == len(columns(NAMES[0])) - 1


def test_the_size_of_the_pieces_is_found_from_the_addresses() -> None:
    """Three tensors of 0.75 GiB: two share a piece of 2 GiB, none a piece of 1 GiB."""
    template = next(block for block in golden(NAMES[0]).blocks if block.kind == "Kernel" and not block.is_persistent)
    size = 3 * GIB // 4
    rows = [
        replace(template, start=time, end=None, size_bytes=size, address=address)
        for time, address in ((1, 9 * GIB), (2, 8 * GIB), (3, 7 * GIB))
    ]
    trace = replace(golden(NAMES[0]), blocks=Blocks.of(rows), tasks=())
    assert replay(trace, lifetimes(trace)).pool.growth_bytes == GIB
    rows[1] = replace(rows[1], address=9 * GIB + size)
    rows[2] = replace(rows[2], address=7 * GIB)
    trace = replace(trace, blocks=Blocks.of(rows))
    assert replay(trace, lifetimes(trace)).pool.growth_bytes == 2 * GIB


@pytest.mark.parametrize("name", NAMES)
def test_categories_add_up_at_every_moment(name: str) -> None:
    live = columns(name)
    curves = by_category(live).values()
    total = np.zeros(len(live.used.time), dtype=np.int64)
    for curve in curves:
        place = np.searchsorted(curve.time, live.used.time, side="right")
        total += np.concatenate([[0], curve.bytes_after])[place]
    assert (total == live.used.bytes_after).all()
    assert sum(holding.size_bytes for holding in holdings_at_peak(live)) == live.used_peak_bytes


def test_recompute_moves_the_peak_from_activations_to_recomputed_tensors() -> None:
    plain, recomputed = columns("llama_l2_none"), columns("llama_l2_recompute")
    assert peak_of(recomputed, Category.ACTIVATION) < peak_of(plain, Category.ACTIVATION) / 4
    assert peak_of(plain, Category.RECOMPUTED) == 0
    assert peak_of(recomputed, Category.RECOMPUTED) > 32 << 20


def test_a_recomputed_cell_runs_forward_first() -> None:
    """Both times under one name, so that half of its kernels are forward ones."""
    trace = golden("llama_l2_recompute")
    known = phases(trace)
    found = Counter(
        known[task.event] for task in trace.tasks if task.name.startswith("recompute_") and task.event in known
    )
    assert set(found) == {Phase.FORWARD, Phase.RECOMPUTED}
    assert found[Phase.FORWARD] == pytest.approx(found[Phase.RECOMPUTED], rel=0.2)


def test_a_primitive_that_the_model_recomputes_is_told_by_its_readers() -> None:
    """The norms of this model recompute their Cast in the backward pass, under its plain name."""
    live = columns("llama_l2_none")
    casts = [
        live.names[live.name[block]]
        for block in np.flatnonzero((live.category == CATEGORIES.index(Category.RECOMPUTED)) & (live.layer >= 0))
    ]
    assert len(casts) == 4
    assert all("_norm-LlamaRMSNorm/Cast-op" in name for name in casts)


@pytest.mark.parametrize(("name", "copies"), [("llama_l2_layerswap_n1", 50), ("llama_l2_none", 0)])
def test_swap_buffers_are_the_copies_back_to_the_device(name: str, copies: int) -> None:
    assert int((columns(name).category == CATEGORIES.index(Category.SWAP)).sum()) == copies


def test_parameters() -> None:
    """AdamW keeps two tensors for each that is trained; nothing of it is ever released."""
    live = columns("llama_l2_none")
    weights, state = (live.category == CATEGORIES.index(kind) for kind in (Category.WEIGHT, Category.OPTIMIZER))
    trained = sorted(live.names[name] for name in live.name[weights] if "." in live.names[name])
    assert sorted(live.names[name] for name in live.name[state]) == sorted(
        f"{prefix}.{name}" for name in trained for prefix in ("adam_m", "adam_v")
    )
    assert (live.end[weights | state] == NEVER).all()
    assert set(live.layer[weights].tolist()) == {-1, 0, 1}


def test_accumulated_gradients_are_gradients() -> None:
    trace = golden("llama_l2_none")
    blocks = Blocks.of(replace(block, node=block.node.replace("adam_m.", "accu_grads.")) for block in trace.blocks)
    live = lifetimes(replace(trace, blocks=blocks))
    gradients = live.category == CATEGORIES.index(Category.GRADIENT)
    assert any(live.names[name].startswith("accu_grads.") for name in live.name[gradients])
    assert not any(live.names[name].startswith("accu_grads.") for name in live.name[~gradients])


@pytest.mark.parametrize(
    ("name", "layer", "operator"),
    [
        (
            "Default/network-A/layers-CellList/0-LLamaDecodeLayer/attention-LLamaAttention/wq-Linear/MatMul-op0",
            0,
            "attention.wq.MatMul",
        ),
        ("adam_m.model.layers.13.feed_forward.w1.weight", 13, "feed_forward.w1.weight"),
        ("decoder.layers.2.mlp.router.weight", 2, "mlp.router.weight"),
        (
            "Gradients/Default/model-GPTModel/decoder-Block/layers-CellList/2-TransformerLayer/Grad_Add/AddN-op1",
            2,
            "AddN",
        ),
        ("mtp.layers.0.enorm.weight", -1, "enorm.weight"),
        (
            "model-GPTModel/mtp-MultiTokenPredictionBlock/layers-CellList/0-MultiTokenPredictionLayer/Cast-op1",
            -1,
            "Cast",
        ),
        ("Default/optimizer-AdamW/Mul-op7", -1, "optimizer.Mul"),
        ("lm_head.weight", -1, "lm_head.weight"),
        ("Default/data-0", -1, "data-0"),
    ],
)
def test_layer_and_operator(name: str, layer: int, operator: str) -> None:
    assert (layer_of(name), operator_of(name)) == (layer, operator)


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("decoder.layers.2.mlp.router.weight", "decoder.layers.2"),
        ("mtp.layers.0.transformer_layer.self_attention.linear_proj.weight", "mtp.layers.0"),
        ("Default/model-GPTModel/mtp-Block/layers-CellList/0-Layer/Cast-op1", None),
        ("lm_head.weight", ""),
    ],
)
def test_scope_of_layer(name: str, scope: str | None) -> None:
    assert scope_of_layer(name) == (name.rpartition("/")[0] if scope is None else scope)


def test_where_the_addresses_leave_the_size_of_pieces_open_what_was_reserved_decides() -> None:
    """MindSpore 2.7.2 took 2 GiB where 2.9.0 takes 3: a persistent piece and one of 1 GiB instead of 2."""
    trace, live = golden("llama_l2_none"), columns("llama_l2_none")
    sizes = {
        reserved: replay(trace, live, PoolRecord(reserved_bytes=reserved))
        for reserved in (None, 3 * GIB, 2 * GIB, 7 * GIB)
    }
    assert all(found.is_exact for found in sizes.values())
    assert {reserved: found.pool.growth_bytes // GIB for reserved, found in sizes.items()} == {
        None: 2,
        3 * GIB: 2,
        2 * GIB: 1,
        7 * GIB: 2,
    }
    assert sizes[2 * GIB].placement.reserved_bytes == 2 * GIB
