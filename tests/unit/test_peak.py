"""What holds the peak, what of it layers can give back, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from swapconf.memory.advice import advice, host_line, is_out_of_reach, peak_line, reach, remedy
from swapconf.memory.holders import peak
from swapconf.memory.peak import Moment, Peak, PeakPart, Share, as_record, grown, of_record
from swapconf.trace.lifetimes import Category
from swapconf.words.units import GIB
from tests.helpers import NAMES, columns, golden
from tests.unit.test_replay import peak_of


def moment(when: str, **gib: float) -> Moment:
    """Parts by name in GiB; of weights, optimizer state and activations of layers all is in layers."""
    inside = {PeakPart.WEIGHTS, PeakPart.OPTIMIZER, PeakPart.LAYERS}
    shares = [
        Share(PeakPart[name.upper()], round(size * GIB), round(size * GIB) if PeakPart[name.upper()] in inside else 0)
        for name, size in gib.items()
    ]
    return Moment(when, tuple(sorted(shares, key=lambda share: -share.size_bytes)))


LOSS = Peak(
    moment("forward", weights=4, optimizer=7.1, loss=18.8, layers=0.8),
    moment("forward", weights=4, optimizer=7.1, loss=18.8),
)
LAYERS = Peak(moment("backward", weights=4, optimizer=8, layers=18), moment("optimizer", weights=4, optimizer=8))
OPTIMIZER = Peak(
    moment("optimizer", weights=4, optimizer=8, temporary=6), moment("optimizer", weights=4, optimizer=8, temporary=6)
)
STATE = Peak(moment("backward", weights=8, optimizer=16, layers=0.5), moment("backward", weights=8, optimizer=16))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_add_up_to_the_peak_and_agree_with_the_categories(name: str) -> None:
    found, live = peak(golden(name)), columns(name)
    assert found.at.used_bytes == golden(name).used_peak_bytes
    assert found.rest.used_bytes <= found.at.used_bytes
    for part, category in (
        (PeakPart.WEIGHTS, Category.WEIGHT),
        (PeakPart.OPTIMIZER, Category.OPTIMIZER),
        (PeakPart.CONSTANTS, Category.CONSTANT),
        (PeakPart.TEMPORARY, Category.TEMPORARY),
    ):
        assert found.at.bytes_of(part) == peak_of(live, category)
    assert all(0 <= share.in_layers_bytes <= share.size_bytes for share in found.at.shares)


def test_no_swap_and_no_recompute_of_the_same_model_gets_below_the_rest() -> None:
    rest = peak(golden("llama_l2_none")).rest.used_bytes
    for name in ("llama_l2_layerswap_n1", "llama_l2_recompute"):
        assert rest <= golden(name).used_peak_bytes


def test_what_follows_from_the_logits_is_of_the_head_and_the_loss() -> None:
    """The model slices its logits outside of the head: the gradient of that stands in no cell of head or loss."""
    found, live = peak(golden("llama_l2_none")), columns("llama_l2_none")
    time = live.used.peak_time
    alive = {
        live.names[name]: int(size)
        for name, size, start, end in zip(live.name.tolist(), live.size_bytes, live.start, live.end, strict=True)
        if start <= time < end
    }
    (sliced,) = (size for name, size in alive.items() if name.endswith("/StridedSliceGrad-op0"))
    assert sliced == (16 << 20) + 512
    assert found.at.bytes_of(PeakPart.LOSS) > sliced
    assert found.at.bytes_of(PeakPart.GRADIENTS) == 0
    assert peak_of(live, Category.GRADIENT) > sliced


def test_without_a_graph_nothing_is_said_of_what_can_be_lowered() -> None:
    bare = replace(golden("llama_l2_none"), tasks=())
    found = peak(bare)
    assert (found.at.when, found.at.used_bytes) == ("", bare.used_peak_bytes)
    assert advice(found) == ""
    assert not is_out_of_reach(found)
    assert peak_line(found).startswith("the largest part of the peak of 192.5M: ")


def test_words_on_what_helps_and_what_cannot() -> None:
    assert peak_line(LOSS) == "the peak of 30.70G is in the forward pass; its largest part: head and loss, 18.80G"
    assert (
        reach(LOSS) == "head and loss hold 18.80G of 30.70G; no swap or recompute of layers lowers that, or gets "
        "below 29.90G"
    )
    assert "model_parallel" in remedy(LOSS)
    assert "optimizer" not in remedy(LOSS)
    assert reach(LAYERS) == "swap and recompute of layers can lower the peak of 30.00G, at best to 12.00G"
    assert remedy(LAYERS) == ""
    assert reach(OPTIMIZER) == "the peak is the optimizer's; swap and recompute of layers cannot lower it"
    assert "enable_parallel_optimizer" in remedy(OPTIMIZER)
    assert reach(STATE) == "no swap or recompute of layers gets it below 24.00G"
    assert "optimizer.swap" in remedy(STATE)
    assert advice(STATE) == f"{reach(STATE)}; {remedy(STATE)}"


def test_words_on_the_host() -> None:
    assert host_line(3 * GIB, 3 * GIB) == "the host memory is the optimizer's state, not activations"
    assert host_line(3 * GIB, 4 * GIB).startswith("3.00G of the host memory of 4.00G is the optimizer's state")
    assert host_line(0, 4 * GIB) == host_line(3 * GIB, 0) == ""


def test_more_layers_grow_what_each_layer_holds() -> None:
    found = grown(replace(LOSS, host_optimizer_bytes=3 * GIB), round(42.6 * GIB))
    assert found.host_optimizer_bytes == pytest.approx(6 * GIB, rel=1e-6)
    assert found.is_grown
    assert reach(found).endswith("or gets below about 41.00G")
    assert found.at.used_bytes == round(42.6 * GIB)
    assert found.at.bytes_of(PeakPart.LOSS) == LOSS.at.bytes_of(PeakPart.LOSS)
    assert found.at.bytes_of(PeakPart.WEIGHTS) == pytest.approx(8 * GIB, rel=1e-6)
    assert found.rest.used_bytes == pytest.approx((30.7 + 11.9 - 1.6) * GIB, rel=1e-6)


def test_the_optimizer_has_temporaries_for_the_weights_of_every_layer() -> None:
    """Their names tell no layer. Outside of the optimizer temporaries are nobody's."""
    name = next(name for name in NAMES if peak(golden(name)).rest.when == "forward")
    parts = {share.part: share for share in peak(golden(name)).rest.shares}
    assert parts[PeakPart.TEMPORARY].in_layers_bytes == 0
    trace = golden("mcore/qwen3_l2_none")
    found = peak(trace).rest
    weights, temporary = (
        next(share for share in found.shares if share.part is part) for part in (PeakPart.WEIGHTS, PeakPart.TEMPORARY)
    )
    assert found.when == "optimizer"
    assert 0 < weights.in_layers_bytes < weights.size_bytes
    assert temporary.in_layers_bytes / temporary.size_bytes == pytest.approx(
        weights.in_layers_bytes / weights.size_bytes, rel=1e-3
    )


def test_with_more_layers_the_peak_can_move_to_where_they_keep_nothing() -> None:
    early = Peak(moment("forward", weights=1, loss=9), moment("optimizer", weights=1, optimizer=2, temporary=1))
    found = grown(early, 14 * GIB)
    assert (found.at.when, found.at.used_bytes) == ("optimizer", 14 * GIB)


def test_the_moment_when_layers_keep_nothing_may_be_known_by_itself() -> None:
    assert grown(LOSS, round(42.6 * GIB), 33 * GIB).rest.used_bytes == 33 * GIB
    assert grown(LOSS, round(42.6 * GIB), 33 * GIB).at == grown(LOSS, round(42.6 * GIB)).at


def test_a_peak_without_anything_in_layers_stays_and_still_adds_up() -> None:
    fixed = Peak(moment("forward", loss=9), moment("forward", loss=9))
    assert grown(fixed, 10 * GIB).at.used_bytes == 10 * GIB


def test_a_peak_comes_back_from_its_record() -> None:
    for found in (LOSS, grown(LAYERS, 40 * GIB), peak(golden(NAMES[0]))):
        assert of_record(json.loads(json.dumps(as_record(found)))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"at": {}},
        {"at": {"when": "noon", "parts": []}},
        {"host_optimizer_bytes": "3"},
        {"rest": None},
        {"at": {"when": "", "parts": [{"part": "weights", "bytes": -1, "in_layers_bytes": 0}]}},
        {"at": {"when": "", "parts": [{"part": "air", "bytes": 1, "in_layers_bytes": 0}]}},
    ],
)
def test_nonsense_is_no_peak(change: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        of_record({**as_record(LOSS), **change})
