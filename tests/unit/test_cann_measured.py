"""Rules of workspace against what others measured on 910B cards.

Rows: https://github.com/suhaibo666/autoparallel, of its docs the pages kernel_workspace_2026-07-29,
head_workspace_2026-07-30 and head_loss_bwd_workspace_2026-07-30, and the operator_memory.csv of select_attn.
"""

from __future__ import annotations

import pytest

from swapconf.memory.cann.card import Card
from swapconf.memory.workspace_rules import workspace_bytes
from swapconf.trace.trace import Tensor
from swapconf.words.units import MIB

LOOSE = Card(deterministic=False)
SMALLER = Card(cube_cores=20)


def wide(*shape: int) -> Tensor:
    return Tensor("Float32", shape)


def narrow(*shape: int) -> Tensor:
    return Tensor("BFloat16", shape)


def index(*shape: int) -> Tensor:
    return Tensor("Int64", shape)


def asked(primitive: str, inputs: list[Tensor], outputs: list[Tensor], card: Card | None = None) -> int:
    return workspace_bytes(primitive, inputs, outputs, *([] if card is None else [card]))[1]


def block(size_bytes: int) -> int:
    """As the pool hands it out."""
    return -(-(size_bytes + 32) // 512) * 512


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "hidden", "copies", "has_parts"),
    [
        (4096, 129280, 4096, 1, True),
        (4096, 64640, 4096, 0, True),
        (2048, 129280, 4096, 1, True),
        (4096, 16160, 4096, 1, False),
        (4096, 40400, 4096, 1, True),
        (4096, 56560, 4096, 1, True),
        (4096, 80800, 4096, 1, True),
        (4096, 113120, 4096, 1, True),
        (4096, 129280, 1792, 1, True),
        (4096, 129280, 3072, 1, True),
        (8192, 129280, 4096, 1, True),
    ],
)
def test_the_gradient_of_a_heads_input(tokens: int, vocabulary: int, hidden: int, copies: int, has_parts: bool) -> None:
    """[tokens, vocabulary] x [vocabulary, hidden]: the long rows are copied, and the sums over the vocabulary are
    partial ones in 32 bits."""
    found = asked("MatMul", [narrow(tokens, vocabulary), narrow(vocabulary, hidden)], [narrow(tokens, hidden)])
    assert found == 20 * MIB + copies * 2 * tokens * vocabulary + has_parts * 4 * tokens * hidden


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "hidden", "copies", "copies_input"),
    [
        (4096, 129280, 4096, 1, True),
        (4096, 64640, 4096, 0, False),
        (4096, 32320, 4096, 1, False),
        (1024, 129280, 4096, 1, True),
        (4096, 24240, 4096, 1, False),
        (4096, 48480, 4096, 1, False),
        (4096, 129280, 2048, 1, True),
        (4096, 129280, 5120, 1, True),
        (8192, 129280, 1792, 1, True),
        (4096, 72720, 4096, 2, True),  # ragged and long: its kernel can't write rows, and the result is copied, too
        (4096, 121200, 4096, 2, True),
    ],
)
def test_the_gradient_of_a_heads_weight(
    tokens: int, vocabulary: int, hidden: int, copies: int, copies_input: bool
) -> None:
    found = asked("MatMul", [narrow(hidden, tokens), narrow(tokens, vocabulary)], [narrow(hidden, vocabulary)])
    assert found == 20 * MIB + copies * 2 * tokens * vocabulary + copies_input * 2 * tokens * hidden


def test_a_head() -> None:
    hidden, logits = narrow(4096, 4096), narrow(4096, 129280)
    assert asked("MatMulExt", [hidden, narrow(4096, 129280)], [logits]) == 1062 * MIB
    # as mindformers has it, the weight is [vocabulary, hidden]: no axis that lies in one piece is long
    assert asked("MatMul", [hidden, narrow(129280, 4096)], [logits]) == 20 * MIB
    assert asked("MatMul", [hidden, hidden], [hidden]) == 20 * MIB


def test_norms() -> None:
    x, statistics = narrow(4096, 4096), wide(4096, 1)
    assert block(asked("RmsNorm", [x, narrow(4096)], [x, statistics])) == 16 * MIB + 512
    gradient = [x, x, statistics, narrow(4096)]
    assert block(asked("RmsNormGrad", gradient, [x, wide(4096)], LOOSE)) == 16_779_264
    assert asked("RmsNormGrad", gradient, [x, wide(4096)]) >= 16_779_264


def test_flash_attention() -> None:
    """Of the second, 91 MiB were measured: what 20 cores take. Its report does not tell how many there were."""
    query, statistics = narrow(1, 64, 4096, 128), wide(1, 64, 4096, 8)
    assert asked("FlashAttentionScore", [query] * 3, [statistics, statistics, query]) == 76 * MIB
    query, statistics = narrow(1, 8, 4096, 192), wide(1, 8, 4096, 8)
    assert asked("FlashAttentionScore", [query] * 3, [statistics, statistics, query], SMALLER) == 91 * MIB
    assert asked("FlashAttentionScore", [query] * 3, [statistics, statistics, query]) == 106 * MIB


def test_the_gradient_of_flash_attention() -> None:
    """230.06 MiB were measured: 20 cores, a fixed order, a copied tensor make it, none of which the report tells."""
    query, statistics = narrow(1, 8, 4096, 192), wide(1, 8, 4096, 8)
    inputs = [query, query, query, query, statistics, statistics, query]
    fixed = Card(cube_cores=20, deterministic=True)
    copy = 8 * 4096 * 192 * 2
    assert (asked("FlashAttentionScoreGrad", inputs, [query] * 3, fixed) + copy) / MIB == pytest.approx(
        230.06, abs=0.005
    )
    assert asked("FlashAttentionScoreGrad", inputs, [query] * 3) > 230.06 * MIB


def test_tables() -> None:
    logits, one, table = wide(4096, 129280), wide(4096, 1), wide(129280, 4096)
    assert block(asked("GatherD", [logits, index(), index(4096, 1)], [one])) == 16 * MIB + 17_920
    assert block(asked("ScatterAddExt", [logits, index(), index(4096, 1), one], [logits])) == 16_795_136
    picked = [table, index(), index(4096, 4096), narrow(4096, 4096)]
    assert block(asked("GatherDGradV2", picked, [table])) == 2_336_230_400
    assert block(asked("InplaceAddExt", [table, narrow(129280, 4096)], [table])) == 1_059_064_320
    chosen = [narrow(4096, 512), index(4096, 512)]
    assert block(asked("TopkExt", [narrow(4096, 2048)], chosen)) / MIB == pytest.approx(8.002, abs=0.0005)


def test_what_is_next_to_nothing() -> None:
    logits = wide(4096, 129280)
    assert asked("Cast", [logits], [narrow(4096, 129280)]) == 0
    assert asked("Exp", [logits], [logits]) == 0
    assert asked("Mul", [logits, logits], [logits]) == 0
    assert block(asked("ReduceMax", [logits], [wide(4096, 1)])) / MIB == pytest.approx(0.0166, abs=0.00005)
    assert block(asked("SumExt", [logits], [wide(4096, 1)])) / MIB == pytest.approx(0.0015, abs=0.00005)
