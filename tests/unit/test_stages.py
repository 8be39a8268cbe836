"""Expected values: mindformers 1.9.0's LayerSetting on the same numbers."""

from __future__ import annotations

import pytest

from swapconf.config.config import EveryLayer, LayerCounts, LayerIndices, Pipeline
from swapconf.decide.stages import BadDeal, deal


def counts(*rows: tuple[int | None, ...], per_interleave: bool = False) -> LayerCounts:
    return LayerCounts(counts=rows, per_interleave=per_interleave)


def test_even_share() -> None:
    stages = deal(8, Pipeline(num_stages=4))
    assert [stages.pipeline_stage(layer) for layer in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_documented_offset_with_interleave() -> None:
    # documentation, Memory Optimization: 48 layers, 5 stages, 2 interleaves
    pipeline = Pipeline(num_stages=5, num_interleaves=2, offset=((0, 1, 1, 1, 1), (1, 1, 1, 1, 0)))
    stages = deal(48, pipeline)
    assert stages.shares == ((4, 5, 5, 5, 5), (5, 5, 5, 5, 4))
    selected = stages.selected(counts((2, 1, 0, 0, 0), (1, 0, 0, 0, 0), per_interleave=True))
    assert selected == {0, 1, 4, 24}
    # "'feed_forward\\.w3\\.matmul': [2,1,0,0,0]" becomes [[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert stages.selected(counts((2, 1, 0, 0, 0))) == {0, 4, 24}


def test_measured_interleave() -> None:
    # 8 layers, 2 stages, 2 interleaves, recompute [[2, 0], [1, 0]] logs full recompute at layers 0, 1, 4
    stages = deal(8, Pipeline(num_stages=2, num_interleaves=2))
    assert stages.selected(counts((2, 0), (1, 0), per_interleave=True)) == {0, 1, 4}


def test_counts_are_capped_and_a_short_row_means_zero() -> None:
    stages = deal(8, Pipeline(num_stages=2))
    assert stages.selected(counts((99, 1))) == {0, 1, 2, 3, 4}
    assert stages.selected(counts((1,))) == {0}
    assert stages.selected(counts((0, None))) == {4, 5, 6, 7}


def test_indices_and_every_layer() -> None:
    stages = deal(4, Pipeline())
    assert stages.selected(LayerIndices((1, 3, 7, -1))) == {1, 3}
    assert stages.selected(EveryLayer()) == {0, 1, 2, 3}


def test_zero_bubble_v_runs_the_second_half_backwards() -> None:
    stages = deal(8, Pipeline(num_stages=2, num_interleaves=2, zero_bubble_v=True))
    assert [stages.pipeline_stage(layer) for layer in range(8)] == [0, 0, 1, 1, 1, 1, 0, 0]


def test_start_stage() -> None:
    assert deal(2, Pipeline(num_stages=2, start_stage=3)).pipeline_stage(1) == 4


@pytest.mark.parametrize(
    ("num_layers", "pipeline", "words"),
    [
        (10, Pipeline(num_stages=4), "leave 2 over"),
        (10, Pipeline(num_stages=4, offset=((1, 1),)), "2 numbers for 4"),
        (8, Pipeline(num_stages=4, offset=((0, 0, 0, 0), (0, 0, 0, 0))), "2 lists for 1"),
        (8, Pipeline(num_stages=4, offset=((2, -2, 0, 0),)), "middle would have no layer"),
        (8, Pipeline(num_stages=4, offset=((-3, 3, 0, 0),)), "fewer than 0"),
    ],
)
def test_offsets_that_do_not_fit(num_layers: int, pipeline: Pipeline, words: str) -> None:
    with pytest.raises(BadDeal, match=words):
        deal(num_layers, pipeline)


def test_without_a_pipeline_the_offset_does_not_matter() -> None:
    assert deal(3, Pipeline(offset=((5,),))).places == ((0, 0),) * 3


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (counts((1, 2, 3)), "3 counts for 2 pipeline stages"),
        (counts((1, 2), (1, 2), per_interleave=True), "2 lists for 1 interleave"),
    ],
)
def test_counts_that_do_not_fit(selection: LayerCounts, words: str) -> None:
    with pytest.raises(BadDeal, match=words):
        deal(8, Pipeline(num_stages=2)).selected(selection)
