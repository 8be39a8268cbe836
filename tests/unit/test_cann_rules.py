"""Rules of workspace where no measurement is at hand: by the text of CANN's tiling code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.memory.cann.card import A2, Card, pieces
from swapconf.memory.cann.product import readings
from swapconf.memory.workspace_rules import RULES, workspace_bytes
from swapconf.trace.trace import Tensor
from swapconf.words.units import MIB

BASE = 20 * MIB
AXES = st.sampled_from([1, 7, 16, 100, 128, 256, 384, 512, 1000, 1536, 4096, 7168, 16384, 27392, 65536, 129280, 151936])


def narrow(*shape: int) -> Tensor:
    return Tensor("BFloat16", shape)


def wide(*shape: int) -> Tensor:
    return Tensor("Float32", shape)


def index(*shape: int) -> Tensor:
    return Tensor("Int32", shape)


def asked(primitive: str, inputs: list[Tensor], outputs: list[Tensor], card: Card = A2) -> int:
    return workspace_bytes(primitive, inputs, outputs, card)[1]


# --- products ---------------------------------------------------------------------------------------------------------


def test_flags_of_a_transpose_follow_from_the_shapes() -> None:
    (only,) = readings([narrow(10, 30), narrow(20, 30)], [narrow(10, 20)])
    assert (only.m, only.k, only.n, only.transposed_a, only.transposed_b) == (10, 30, 20, False, True)
    (only,) = readings([narrow(30, 10), narrow(30, 20)], [narrow(10, 20)])
    assert (only.transposed_a, only.transposed_b) == (True, False)
    assert len(readings([narrow(10, 10)] * 2, [narrow(10, 10)])) == 4
    assert readings([narrow(10, 30), narrow(20, 40)], [narrow(10, 20)]) == []
    assert readings([narrow(-1, 30), narrow(20, 30)], [narrow(-1, 20)]) == []


def test_leading_axes_belong_to_the_rows_where_the_weight_has_none() -> None:
    (folded,) = readings([narrow(2, 2048, 4096), narrow(11008, 4096)], [narrow(2, 2048, 11008)])
    assert (folded.m, folded.k, folded.n, folded.batch_a) == (4096, 4096, 11008, 1)
    (batch,) = readings([narrow(2, 8, 64, 32), narrow(2, 8, 32, 16)], [narrow(2, 8, 64, 16)])
    assert (batch.m, batch.k, batch.n, batch.batch_a, batch.batch_b) == (64, 32, 16, 16, 16)


def test_where_several_transposes_fit_the_largest_need_counts() -> None:
    """Of a square weight: as [out, in] no axis is ragged that is not so as [in, out]; n decides whether B collides."""
    tied = asked("MatMul", [narrow(8192, 16384), narrow(16384, 16384)], [narrow(8192, 16384)])
    flat = asked("MatMul", [narrow(8192, 16384), narrow(16384, 16512)], [narrow(8192, 16512)])
    assert tied >= BASE + 2 * 16384 * 16384
    assert flat == BASE


def test_before_cann_9_the_result_of_blocks_is_copied_too() -> None:
    inputs, outputs = [narrow(4096, 4096), narrow(4096, 129280)], [narrow(4096, 129280)]
    copies = 2 * (4096 * 4096 + 4096 * 129280)
    assert asked("MatMul", inputs, outputs) == BASE + copies
    assert asked("MatMul", inputs, outputs, Card(cann="8.5")) == BASE + copies + 2 * 4096 * 129280
    with pytest.raises(ValueError, match=r"no rules for CANN 7\.0: there are 8\.5, 9\.0"):
        Card(cann="7.0")


def test_long_sums_of_a_ragged_matrix_that_is_too_large_are_done_in_blocks() -> None:
    """2^31 bytes are the most that CheckSupportSingleSplitKFp16Bf16 takes of ragged matrices."""
    tokens, vocabulary, hidden = 8192, 151_939, 8192
    found = asked("MatMul", [narrow(tokens, vocabulary), narrow(vocabulary, hidden)], [narrow(tokens, hidden)])
    rows = -(-vocabulary // 16) * 16
    assert found == BASE + 2 * rows * (tokens + hidden)


def test_32_bit_matrices_are_split_but_hardly_copied() -> None:
    found = asked("MatMul", [wide(4096, 30000), wide(30000, 4096)], [wide(4096, 4096)])
    assert found == BASE + 4 * 4096 * 4096
    assert asked("MatMul", [wide(4096, 1001), wide(1001, 4096)], [wide(4096, 4096)]) == BASE


def test_cores_that_share_a_sum_hold_a_part_each() -> None:
    """The gradient of a router's weight: few rows and columns, many tokens."""
    found = asked("MatMul", [narrow(65536, 64), narrow(65536, 512)], [narrow(64, 512)])
    assert found == BASE + 24 * 384 * 512 * 2 * 4
    twenty = asked("MatMul", [narrow(65536, 64), narrow(65536, 512)], [narrow(64, 512)], Card(cube_cores=20))
    assert twenty == BASE + 20 * 384 * 512 * 2 * 4


def test_a_few_shapes_are_tuned_and_split_where_no_rule_says_so() -> None:
    """Gradients of weights: [tokens, m] and [tokens, n]."""
    tuned = asked("MatMul", [narrow(24576, 5120), narrow(24576, 1792)], [narrow(5120, 1792)])
    assert tuned == BASE + 5120 * 1792 * 4
    twenty = Card(cube_cores=20)
    assert asked("MatMul", [narrow(24576, 5120), narrow(24576, 1792)], [narrow(5120, 1792)], twenty) == BASE
    assert asked("MatMul", [narrow(24560, 5120), narrow(24560, 1792)], [narrow(5120, 1792)]) == BASE
    ragged = asked("MatMul", [narrow(20490, 6400), narrow(20490, 3200)], [narrow(6400, 3200)], twenty)
    even = asked("MatMul", [narrow(20496, 6400), narrow(20496, 3200)], [narrow(6400, 3200)], twenty)
    assert (ragged - BASE, even) == (6400 * 3200 * 4, BASE)
    shared = asked("MatMul", [narrow(16384, 768), narrow(16384, 768)], [narrow(768, 768)])
    assert shared == BASE + 24 * 384 * 768 * 8


def test_ragged_short_rows_are_copied_and_small_even_ones_are_not() -> None:
    assert asked("MatMul", [narrow(4096, 200), narrow(200, 4096)], [narrow(4096, 4096)]) == BASE + 2 * 4096 * 208
    both = 2 * 2 * 4096 * 112  # shorter than 128, and no multiple of 16: in blocks
    assert asked("MatMul", [narrow(4096, 100), narrow(100, 4096)], [narrow(4096, 4096)]) == BASE + both
    assert asked("MatMul", [narrow(4096, 96), narrow(96, 4096)], [narrow(4096, 4096)]) == BASE


def test_products_in_batches_copy_all_their_short_ragged_rows() -> None:
    inputs, outputs = [narrow(64, 8, 128, 72), narrow(64, 8, 72, 128)], [narrow(64, 8, 128, 128)]
    assert asked("BatchMatMul", inputs, outputs) == BASE + 512 * 2 * 128 * 80
    assert asked("BatchMatMul", [narrow(1, 1, 4096, 128), narrow(128, 128)], [narrow(1, 1, 4096, 128)]) == BASE


def test_grouped_products() -> None:
    inputs, outputs = [narrow(4096, 2048), narrow(8, 2048, 1408)], [narrow(4096, 1408)]
    assert asked("GroupedMatmul", inputs, outputs) == 16 * MIB
    eight = [Tensor("Int8", (4096, 2048)), Tensor("Int8", (8, 2048, 1408))]
    assert asked("GroupedMatmul", eight, outputs) == 16 * MIB + 24 * 16 * 256 * 256


@given(AXES, AXES, AXES, st.booleans(), st.booleans(), st.sampled_from(["BFloat16", "Float32"]))
def test_every_product_has_a_size_and_no_card_changes_it_wildly(
    m: int, k: int, n: int, left: bool, right: bool, dtype: str
) -> None:
    a = Tensor(dtype, (k, m) if left else (m, k))
    b = Tensor(dtype, (n, k) if right else (k, n))
    c = Tensor(dtype, (m, n))
    item = 4 if dtype == "Float32" else 2
    matrices = item * sum((rows + 16) * (columns + 16) for rows, columns in ((m, k), (k, n), (m, n)))
    partial = 4 * m * (n + 128) + 24 * 384 * (max(m, n) + 128) * 8 + 24 * 2 * 2 * 384 * (n + 16) * 4
    for card in (A2, Card(cann="8.5"), Card(cube_cores=20)):
        assert BASE <= asked("MatMul", [a, b], [c], card) <= BASE + matrices + partial


# --- attention --------------------------------------------------------------------------------------------------------


def attention(*shape: int, heads: int, queries: int, batch: int = 1) -> tuple[list[Tensor], list[Tensor]]:
    query, statistics = narrow(*shape), wide(batch, heads, queries, 8)
    return [query] * 3, [statistics, statistics, query]


def test_every_layout_says_the_same() -> None:
    expected = 16 * MIB + 48 * 4 * (2 * 8 * 128 * 128 + 4 * 128 * 128)
    for shape in ((2, 8, 4096, 128), (2, 4096, 8, 128), (2, 4096, 1024), (4096, 2, 1024)):
        assert asked("FlashAttentionScore", *attention(*shape, batch=2, heads=8, queries=4096)) == expected


@pytest.mark.parametrize(
    ("sequence", "width", "stages", "rows"),
    [(4096, 64, 2, 128), (4100, 128, 3, 128), (1280, 128, 2, 64), (2304, 256, 2, 128)],
)
def test_many_keys(sequence: int, width: int, stages: int, rows: int) -> None:
    inputs, outputs = attention(1, 2, sequence, width, heads=2, queries=sequence)
    assert asked("FlashAttentionScore", inputs, outputs) == 16 * MIB + 48 * 4 * (
        stages * 8 * rows * 128 + 4 * rows * width
    )


@pytest.mark.parametrize(("sequence", "width"), [(4096, 96), (4096, 144), (2050, 64)])
def test_widths_that_share_a_block_between_two_vector_cores(sequence: int, width: int) -> None:
    inputs, outputs = attention(1, 8, sequence, width, heads=8, queries=sequence)
    rows = 384 if (width, sequence) == (96, 4096) else 256
    expected = 16 * MIB + 24 * 4 * ((6 if sequence == 2050 else 8) * 3 * rows * 128 + 4 * rows * width)
    assert asked("FlashAttentionScore", inputs, outputs) == expected


def test_few_keys_take_the_short_template() -> None:
    inputs, outputs = attention(4, 16, 1024, 128, batch=4, heads=16, queries=1024)
    scores, result = 128 * 1024 * 8, 128 * 128 * 8
    assert asked("FlashAttentionScore", inputs, outputs) == 16 * MIB + 48 * (scores + scores // 2 + result)


def test_heads_of_another_width_are_copied() -> None:
    plain = asked("FlashAttentionScore", *attention(1, 8, 4096, 96, heads=8, queries=4096))
    padded = asked("FlashAttentionScore", *attention(1, 8, 4096, 90, heads=8, queries=4096))
    assert padded == plain + 4 * 8 * 4096 * 96 * 2
    kept = asked("FlashAttentionScore", *attention(1, 4096, 8, 88, heads=8, queries=4096))
    assert kept == 16 * MIB + 24 * 4 * (8 * 3 * 384 * 128 + 4 * 384 * 96)


def test_rows_that_lie_too_far_apart_are_brought_together() -> None:
    near = asked("FlashAttentionScore", *attention(4096, 4, 8192, batch=4, heads=64, queries=4096))
    far = asked("FlashAttentionScore", *attention(4096, 8, 8192, batch=8, heads=64, queries=4096))
    assert far - near == 4 * 4096 * 8 * 8192 * 2


def test_packed_sequences() -> None:
    query, statistics = narrow(8192, 8, 128), wide(8192, 8, 8)
    found = asked("FlashAttentionScore", [query] * 3, [statistics, statistics, query])
    assert found == 16 * MIB + 48 * 4 * (3 * 8 * 128 * 128 + 4 * 128 * 128)
    gradient = asked("FlashAttentionScoreGrad", [query] * 4 + [statistics] * 2 + [query], [query] * 3)
    assert gradient > 20 * MIB + 3 * 4 * 8192 * 8 * 128


def test_shapes_that_do_not_tell_the_heads_take_the_largest_common_template() -> None:
    query = narrow(-1, 4096, 1024)
    assert asked("FlashAttentionScore", [query] * 3, [query]) == 16 * MIB + 48 * 4 * (3 * 8 * 128 * 128 + 4 * 128 * 128)
    assert asked("FlashAttentionScoreGrad", [query] * 3, [query]) > 20 * MIB


def test_the_gradient_sums_up_in_32_bits_and_an_order_takes_more() -> None:
    query, key, statistics = narrow(1, 8, 4096, 128), narrow(1, 2, 4096, 128), wide(1, 8, 4096, 8)
    inputs = [query, key, key, query, statistics, statistics, query]
    sums, scores = (8 + 2 + 2) * 4096 * 128 * 4, 48 * 512 * 512 * 8
    free = 20 * MIB + 64 * 1024 + sums + 8 * 4096 * 8 * 4 + scores + 4 * 512  # a gap behind each but the statistics
    fixed = free + 512 * 3 * 128 * 8 * 24
    for deterministic, expected in ((False, free), (True, fixed), (None, fixed)):
        card = replace(A2, deterministic=deterministic)
        assert asked("FlashAttentionScoreGrad", inputs, [query, key, key], card) == expected


def test_the_gradient_in_32_bits_and_of_few_keys() -> None:
    query, statistics = wide(1, 8, 4096, 64), wide(1, 8, 4096, 8)
    inputs = [query] * 4 + [statistics] * 2 + [query]
    expected = 20 * MIB + 16 * 1024 + 3 * 8 * 4096 * 64 * 4 + 48 * 16 * 8192 * (8 + 16) + 6 * 512
    assert asked("FlashAttentionScoreGrad", inputs, [query] * 3) == expected
    query, statistics = narrow(1, 8, 512, 128), wide(1, 8, 512, 8)
    inputs = [query] * 4 + [statistics] * 2 + [query]
    few = asked("FlashAttentionScoreGrad", inputs, [query] * 3, Card(deterministic=False))
    assert few == 32 * MIB + 3 * 8 * 512 * 128 * 4 + 48 * 131072 * 16


def test_a_narrow_value_is_widened_where_sums_have_an_order() -> None:
    query, value, statistics = narrow(1, 8, 4096, 192), narrow(1, 8, 4096, 128), wide(1, 8, 4096, 8)
    inputs = [query, query, value, value, statistics, statistics, value]
    free, fixed, untold = (
        asked("FlashAttentionScoreGrad", inputs, [query, query, value], replace(A2, deterministic=deterministic))
        for deterministic in (False, True, None)
    )
    sums, order = 8 * 4096 * 64 * 4, 512 * 3 * 192 * 8 * 24
    assert fixed == free + sums + order + 4 * 8 * 4096 * 192 * 2
    assert untold == fixed


def test_the_gradient_of_heads_of_another_width_sums_up_what_was_copied() -> None:
    query, statistics = narrow(1, 8, 4096, 200), wide(1, 8, 4096, 8)
    inputs = [query] * 4 + [statistics] * 2 + [query]
    wider = narrow(1, 8, 4096, 256)
    copied = 8 * 8 * 4096 * 256 * 2
    loose = Card(deterministic=False)
    assert asked("FlashAttentionScoreGrad", inputs, [query] * 3, loose) == copied + asked(
        "FlashAttentionScoreGrad", [wider] * 4 + [statistics] * 2 + [wider], [wider] * 3, loose
    )


@pytest.mark.parametrize(("keys", "unpacked"), [(4096, 0), (4100, 8 * 4096 * 4100)])
def test_a_mask_of_dropout_is_unpacked_where_its_rows_end_within_a_byte(keys: int, unpacked: int) -> None:
    query, key, statistics = narrow(1, 8, 4096, 128), narrow(1, 8, keys, 128), wide(1, 8, 4096, 8)
    mask = Tensor("UInt8", (8 * 4096 * keys // 8,))
    loose = Card(deterministic=False)
    for primitive, inputs in (
        ("FlashAttentionScore", [query, key, key]),
        ("FlashAttentionScoreGrad", [query, key, key, query, statistics, statistics, query]),
    ):
        outputs = [statistics, statistics, query]
        with_mask = asked(primitive, [*inputs, mask], outputs, loose)
        assert with_mask - asked(primitive, inputs, outputs, loose) in (unpacked, unpacked + 512 * bool(unpacked))


# --- the others -------------------------------------------------------------------------------------------------------


def test_experts() -> None:
    tokens, choices = narrow(4096, 2048), index(4096, 8)
    length = 4096 * 8
    assert asked("MoeTokenPermute", [tokens, choices], [narrow(length, 2048)]) == 16 * MIB + 24 * length + 64 * 48
    assert asked("MoeInitRoutingV2", [tokens, choices], [narrow(length, 2048)]) == 16 * MIB + 32 * length + 8 * 48
    assert asked("MoeTokenPermute", [tokens], [narrow(length, 2048)]) == 16 * MIB + 24 * length + 64 * 48
    assert asked("MoeTokenUnpermuteGrad", [tokens], [tokens]) == 16 * MIB


def test_few_rows_keep_few_cores_of_a_norm() -> None:
    x = narrow(40, 512)
    assert asked("RmsNormGrad", [x, x, wide(40, 1), narrow(512)], [x, wide(512)]) == 16 * MIB + 40 * (512 + 8) * 4
    loose = Card(deterministic=False)
    assert asked("RmsNormGrad", [x, x, wide(40, 1), narrow(512)], [x, wide(512)], loose) == 16 * MIB + 40 * 32


def test_along_another_axis_than_the_last_tables_are_transposed() -> None:
    table, places, found = wide(1000, 64), index(10, 64), wide(10, 64)
    size = pieces(16 * MIB, 640 * 4) + pieces(table.size_bytes or 0, 640 * 4, 640 * 4)
    assert asked("GatherD", [table, index(), places], [found]) == size
    assert asked("ScatterAddExt", [table, index(), places, found], [table]) > pieces(16 * MIB, 2 * 64000 * 4)


def test_what_is_narrower_is_copied_first() -> None:
    assert asked("Div", [wide(1000, 64), narrow(1000, 64)], [wide(1000, 64)]) == pieces(64000 * 4)
    assert asked("Mul", [wide(1000, 64), narrow(1000, 64)], [wide(1000, 64)]) == 0
    assert asked("AssignAdd", [wide(1000, 64), narrow(1000, 64)], [wide(1000, 64)]) == pieces(64000 * 2, 0, 0, 0)
    assert asked("AssignAdd", [wide(), wide()], [wide()]) == 0
    assert asked("Add", [narrow(1000, 64), narrow(1000, 64)], [narrow(1000, 64)]) == 0
    assert asked("SumExt", [narrow(1000, 64)], [wide(1000)]) == pieces(0, 0, 64000 * 4)


def test_numbers_of_several_types_are_copied_to_one() -> None:
    shape, count = (1000, 64), 64000
    whole, flags, half = index(*shape), Tensor("Bool", shape), Tensor("Float16", shape)
    assert asked("Mul", [wide(*shape), whole], [wide(*shape)]) == pieces(count * 4)
    assert asked("AddExt", [narrow(*shape), half], [wide(*shape)]) == pieces(count * 4, count * 4)
    assert asked("Equal", [whole, Tensor("Int64", shape)], [flags]) == pieces(count * 8)
    assert asked("Sub", [narrow(*shape), flags], [narrow(*shape)]) == pieces(count * 2)
    assert asked("Select", [flags, wide(*shape), wide(*shape)], [wide(*shape)]) == 0
    assert asked("Cast", [whole], [wide(*shape)]) == 0
    assert asked("Mul", [wide(*shape), Tensor("Int64", ())], [wide(*shape)]) == 0


def test_what_is_summed_has_the_type_of_the_sum_before() -> None:
    assert asked("SumExt", [index(1000, 64)], [Tensor("Int64", (1000,))]) == pieces(0, 0, 64000 * 8)
    assert asked("SumExt", [wide(1000, 64)], [narrow(1000)]) == pieces(0, 0, 64000 * 2)
    assert asked("SumExt", [index(1000, 64)], [index(1000)]) == pieces(0, 0)
    flags = Tensor("Bool", (1000, 64))
    assert asked("ReduceMax", [flags], [Tensor("Bool", (1000,))]) == pieces(1000 * 4, 64000 * 4)


def test_a_few_of_the_top_are_found_in_two_rounds() -> None:
    six, many = ([narrow(4096, count), Tensor("Int64", (4096, count))] for count in (6, 8))
    assert asked("TopkExt", [narrow(4096, 256)], six) > asked("TopkExt", [narrow(4096, 256)], many)


def test_the_top_along_another_axis_is_found_in_transposed_tensors() -> None:
    last = asked("TopkExt", [narrow(64, 4096)], [narrow(64, 16), Tensor("Int64", (64, 16))])
    first = asked("TopkExt", [narrow(4096, 64)], [narrow(16, 64), Tensor("Int64", (16, 64))])
    assert first - last == pieces(64 * 4096 * 2, 1024 * 2, 1024 * 2, 1024 * 4)


def test_the_gradient_of_an_embedding_holds_the_table_in_32_bits() -> None:
    found = asked("EmbeddingDenseBackward", [narrow(4096, 2048), index(4096)], [narrow(32000, 2048)])
    assert found == pieces(16 * MIB, 32000 * 2048 * 4, 4096 * 2048 * 4, *[4096 * 4] * 4)
    short = asked("EmbeddingDenseBackward", [narrow(4096, 512), index(4096)], [narrow(129280, 512)])
    assert short == pieces(16 * MIB, 129280 * 512 * 6, 4096 * 512 * 4, *[4096 * 4] * 4)


@given(st.sampled_from(sorted({"MatMul", "Mul", "SumExt", "GatherD", "GatherDGradV2", "ScatterAddExt", "TopkExt"})))
def test_nothing_is_asked_of_shapes_that_are_not_there(primitive: str) -> None:
    for inputs, outputs in (([], []), ([narrow()], [narrow()]), ([narrow(-1, 4)], [narrow(-1, 4)])):
        name, size = workspace_bytes(primitive, inputs, outputs)
        assert name in RULES
        assert size >= 0
