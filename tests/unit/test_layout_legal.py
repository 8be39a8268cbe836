"""Which layouts there are for a number of cards, and which keys of a YAML say one."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from swapconf.config import base_config
from swapconf.config.overrides import of_file
from swapconf.config.rewriting import CannotRewrite
from swapconf.layout.bounds import kind
from swapconf.layout.layout import Layout, NoLayout, layout_of
from swapconf.layout.legal import BadWish, Degree, Wishes, dealt, layouts, nearest, wishes
from swapconf.layout.runs import candidates
from swapconf.layout.small import SIZES, small, small_candidates, unlike_layers
from swapconf.layout.written import changes, keys, offset, write
from swapconf.study.study import Study, study_for_check
from tests.helpers import ROOT

QWEN3 = ROOT / "configs/small/qwen3_default_swap.yaml"
DEEPSEEK = ROOT / "configs/small/deepseek_v3_default_swap.yaml"
OWN = Layout(data=2, tensors=2, stages=2, batch=1, micro_batches=4, deal=((2, 2),))


def study(file: Path = QWEN3, *given: str) -> Study:
    return study_for_check(of_file(str(file), given), os.environ)


@pytest.mark.parametrize("cards", [4, 8, 16])
def test_each_layout_takes_all_cards_and_trains_the_same_sequences(cards: int) -> None:
    found = layouts(OWN, cards, Wishes())
    assert found
    assert len(found) == len(set(found))
    for layout in found:
        assert layout.cards == cards
        assert layout.sequences == OWN.sequences
        assert sum(layout.layers_of_stage) == 4
        assert layout.stages == 1 or layout.micro_batches >= layout.stages
        assert layout.tensors > 1 or not layout.is_sequence


def test_the_layout_of_the_yaml_is_one_of_them_whatever_its_offset() -> None:
    uneven = Layout(data=2, tensors=2, stages=2, batch=1, micro_batches=4, deal=((3, 1),))
    assert uneven in layouts(uneven, 8, Wishes())
    assert OWN not in layouts(uneven, 8, Wishes())


def test_what_is_fixed_stays_and_what_is_varied_takes_the_values_asked_for() -> None:
    found = layouts(OWN, 8, wishes(["pipeline_stage", "parallel_config.model_parallel"], ["batch_size=2"]))
    assert {(layout.stages, layout.tensors, layout.batch) for layout in found} == {(2, 2, 2)}
    interleaved = layouts(OWN, 8, wishes([], ["pp_interleave_num=1,2", "pipeline_stage=2"]))
    assert {layout.interleaves for layout in interleaved} == {1, 2}
    assert {layout.deal for layout in interleaved} == {((2, 2),), ((1, 1), (1, 1))}
    switched = layouts(OWN, 8, wishes([], ["use_seq_parallel=False", "enable_parallel_optimizer=true"]))
    assert not any(layout.is_sequence for layout in switched)
    assert all(layout.shards_optimizer for layout in switched if layout.data > 1)


@pytest.mark.parametrize(
    ("fix", "vary", "told"),
    [
        (["pipeline"], [], "no key of a layout"),
        ([], ["batch_size"], "write KEY=A,B"),
        ([], ["batch_size=0"], "above 0"),
        ([], ["batch_size=1", "batch_size=2"], "given twice"),
        (["batch_size"], ["batch_size=2"], "given twice"),
        ([], ["use_seq_parallel=2"], "True or False"),
        ([], ["offset=1"], "--fix offset"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_with_what_can(fix: list[str], vary: list[str], told: str) -> None:
    with pytest.raises(BadWish, match=told):
        wishes(fix, vary)


def test_layers_that_are_left_over_go_to_the_middle_first() -> None:
    assert dealt(8, 4) == ((2, 2, 2, 2),)
    assert dealt(10, 4) == ((2, 3, 3, 2),)
    assert dealt(11, 4) == ((3, 3, 3, 2),)
    assert dealt(3, 2) == ((2, 1),)
    assert dealt(3, 4) == ()
    assert offset(dealt(10, 4)) == [0, 1, 1, 0]
    assert offset(dealt(8, 4)) == 0
    assert offset(((2, 1), (1, 1))) == [[1, 0], [0, 0]]


def test_the_keys_of_every_layout_give_that_layout_and_no_error() -> None:
    whole = study()
    good, bad = candidates(whole, (), layouts(layout_of(whole), 8, Wishes()))
    assert {item.rule for item in bad} == {"tensor-parallel"}  # 2 heads of keys
    assert all(item.layout.tensors > 2 for item in bad)
    for item in good:
        assert layout_of(item.study) == item.layout


@pytest.mark.parametrize(("number", "stages"), [(2, {1, 2}), (4, {1, 2, 4}), (5, {1, 2, 4})])
def test_layers_that_do_not_divide_are_dealt_by_an_offset_that_check_accepts(number: int, stages: set[int]) -> None:
    rest = "[1,0]" if number % 2 else "0"
    given = (f"model.model_config.num_hidden_layers={number}", f"model.model_config.offset={rest}")
    whole = study(QWEN3, *given)
    good, _ = candidates(whole, given, layouts(layout_of(whole), 8, Wishes()))
    assert {item.layout.stages for item in good} == stages


def test_the_yaml_of_its_own_layout_changes_nothing() -> None:
    assert keys(study(), layout_of(study())) == {}


def test_a_layout_is_written_with_all_that_hangs_together_and_every_comment_kept(tmp_path: Path) -> None:
    file = Path(shutil.copy(QWEN3, tmp_path / "train.yaml"))
    before, whole = file.read_text(), study(file)
    other = Layout(data=4, tensors=2, stages=1, batch=1, micro_batches=2, shards_optimizer=True, deal=((4,),))
    after = write(before, whole, other)
    values = yaml.safe_load(after)
    assert values["parallel_config"]["data_parallel"] == 4
    assert values["parallel_config"]["pipeline_stage"] == 1
    assert values["parallel_config"]["micro_batch_num"] == 1
    assert values["runner_config"]["gradient_accumulation_steps"] == 2
    assert values["parallel"]["dataset_strategy"] == [[4, 1]] * 4
    assert values["parallel"]["enable_parallel_optimizer"] is True
    assert [line.partition("#")[2] for line in after.splitlines() if "#" in line] == [
        line.partition("#")[2] for line in before.splitlines() if "#" in line
    ]
    again = study_for_check(base_config.of_text(after, str(file)), os.environ)
    assert layout_of(again) == other
    assert not again.findings or not again.is_refused
    assert sum(one != two for one, two in zip(before.splitlines(), after.splitlines(), strict=True)) == 6


def test_interleaved_stages_bring_the_section_that_turns_them_on() -> None:
    other = Layout(data=2, tensors=2, stages=2, batch=1, micro_batches=4, deal=((1, 1), (1, 1)))
    told = dict(keys(study(), other))
    assert told["parallel.pipeline_config"] == {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}
    assert told["model.model_config.pp_interleave_num"] == 2
    assert layout_of(study(QWEN3, *changes(study(), other))) == other
    seqpipe = 'parallel.pipeline_config={"pipeline_interleave": true, "pipeline_scheduler": "seqpipe"}'
    back = keys(study(QWEN3, *changes(study(), other), seqpipe), OWN)
    assert back["parallel.pipeline_config"] == {"pipeline_interleave": False, "pipeline_scheduler": "1f1b"}


def test_stages_turn_off_that_the_vocabulary_is_whole() -> None:
    given = ("parallel_config.vocab_emb_dp=True", "parallel_config.pipeline_stage=1", "parallel_config.data_parallel=4")
    cut = ("parallel.dataset_strategy=[[4,1],[4,1],[4,1],[4,1]]", "parallel_config.micro_batch_num=1")
    whole = study(QWEN3, *given, *cut, "runner_config.gradient_accumulation_steps=2")
    assert keys(whole, OWN)["parallel_config.vocab_emb_dp"] is False


@pytest.mark.parametrize("given", ["use_parallel=False", "use_parallel="])
def test_a_yaml_of_one_card_has_no_layout(given: str) -> None:
    with pytest.raises(NoLayout, match="one card"):
        layout_of(study(QWEN3, given))


def test_a_yaml_of_pynative_mode_is_told_to_be_one_instead_of_one_for_one_card() -> None:
    with pytest.raises(NoLayout, match="PyNative mode are not compared; try one: swapconf dryrun"):
        layout_of(study(ROOT / "configs/pynative/qwen3.yaml"))


def test_every_degree_is_told_by_the_name_of_a_key() -> None:
    assert len({key for degree in Degree for key in degree.keys}) == sum(len(degree.keys) for degree in Degree)


ANCHORED = """\
use_legacy: False
use_parallel: True
runner_config: {batch_size: &bs 1}
parallel: {parallel_mode: 1, full_batch: False, dataset_strategy: [[*dp, 1], [*dp, 1]]}
model:
  model_config: {model_type: qwen3, architectures: [Qwen3ForCausalLM], num_hidden_layers: 4, batch_size: *bs}
callbacks:
  - {type: TopkBiasBalanceCallback, micro_batch_num: *mb}
"""
PARALLEL = """\
parallel_config:
  data_parallel: &dp 2  # of the data
  model_parallel: 2
  pipeline_stage: 2
  micro_batch_num: &mb 4
"""


def test_an_anchor_stays_and_what_names_it_follows(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(PARALLEL + ANCHORED)
    other = Layout(data=1, tensors=2, stages=4, batch=2, micro_batches=4, deal=((1, 1, 1, 1),))
    whole = study(file)
    after = write(file.read_text(), whole, other)
    assert "  data_parallel: &dp 1  # of the data\n" in after
    assert "runner_config: {batch_size: &bs 2}" in after
    assert "[[*dp, 1], [*dp, 1]]" in after
    assert "batch_size: *bs}" in after
    assert layout_of(study_for_check(base_config.of_text(after, str(file)), os.environ)) == other
    more = write(file.read_text(), whole, replace(other, batch=1, micro_batches=8))
    assert yaml.safe_load(more)["callbacks"][0]["micro_batch_num"] == 8


def test_an_alias_that_would_have_to_say_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(PARALLEL.replace("model_parallel: 2", "model_parallel: *dp") + ANCHORED)
    other = Layout(data=1, tensors=4, stages=2, batch=1, micro_batches=8, deal=((2, 2),))
    with pytest.raises(CannotRewrite, match="`model_parallel` is an alias of line 2"):
        write(file.read_text(), study(file), other)


def test_what_a_merge_key_brings_is_overridden(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    merged = f"base: &base\n  {PARALLEL.partition(chr(10))[2].lstrip()}parallel_config:\n  <<: *base\n"
    file.write_text(merged + ANCHORED.replace("*mb", "4"))
    other = Layout(data=2, tensors=4, stages=1, batch=1, micro_batches=4, deal=((4,),))
    after = yaml.safe_load(write(file.read_text(), study(file), other))
    assert (after["parallel_config"]["model_parallel"], after["base"]["model_parallel"]) == (4, 2)


@pytest.mark.parametrize("is_sequence", [True, False])
def test_sequence_parallelism_that_one_card_for_tensors_ignores_is_said_where_there_are_more(
    tmp_path: Path, is_sequence: bool
) -> None:
    file = tmp_path / "train.yaml"
    legacy = "{type: LlamaConfig, num_layers: 4, num_heads: 8}, arch: {type: LlamaForCausalLM}"
    file.write_text(
        "use_parallel: True\nrunner_config: {batch_size: 1}\nparallel: {parallel_mode: 1}\n"
        "parallel_config: {data_parallel: 4, model_parallel: 1, use_seq_parallel: True}\n"
        f"model: {{model_config: {legacy}}}\n"
    )
    other = Layout(data=2, tensors=2, stages=1, batch=1, micro_batches=2, is_sequence=is_sequence, deal=((4,),))
    after = write(file.read_text(), study(file), other)
    assert layout_of(study_for_check(base_config.of_text(after, str(file)), os.environ)) == other


def test_a_small_model_is_cut_as_its_layout_and_has_few_layers() -> None:
    wide = Layout(data=4, tensors=1, stages=2, batch=1, micro_batches=4, shards_optimizer=True, deal=((6, 6),))
    long = replace(OWN, data=1, tensors=2, stages=4, micro_batches=64, deal=((6,) * 4,))
    assert not small_candidates(study(), (), OWN)  # it has few layers anyway
    for other in (
        replace(OWN, micro_batches=64, deal=((6, 6),)),
        wide,
        replace(OWN, data=4, stages=1, deal=((8,),)),
        long,
    ):
        for count, found in zip(SIZES, small_candidates(study(), (), other), strict=True):
            assert layout_of(found.study) == found.layout == small(other, count)
            assert found.layout.layers_of_stage == ((1, count) if other.stages > 1 else (count,))
            assert kind(found.layout) == kind(other)
            assert found.layout.micro_batches == min(other.micro_batches, 4)


@pytest.mark.parametrize("first", [1, 2])
def test_layers_that_the_last_ones_are_unlike_stand_in_front_of_them(first: int) -> None:
    mixed = (f"model.model_config.first_k_dense_replace={first}",)
    asked = study(DEEPSEEK, *mixed)
    assert unlike_layers(asked) == first  # the layer that predicts further tokens is none of them
    deep = replace(layout_of(asked), deal=((9, 9),))
    for count, found in zip(SIZES, small_candidates(asked, mixed, deep), strict=True):
        assert found.layout.layers_of_stage == (first, count)
        assert unlike_layers(found.study) == first
    (wide,) = {
        unlike_layers(found.study) for found in small_candidates(asked, mixed, replace(deep, stages=1, deal=((18,),)))
    }
    assert wide == first


def test_where_layers_differ_otherwise_few_do_not_tell_of_all() -> None:
    turns = ("model.model_config.first_k_dense_replace=0", "model.model_config.moe_layer_freq=[0, 1, 0, 1]")
    asked = study(DEEPSEEK, *turns)
    assert unlike_layers(asked) is None
    assert not small_candidates(asked, turns, replace(layout_of(asked), deal=((9, 9),)))


def test_layers_of_a_stage_but_for_the_first_ones_of_the_model() -> None:
    split = replace(OWN, stages=2, deal=((2, 1), (1, 2)))  # 2 and 1, then 1 and 2
    assert [split.layers_behind(first) for first in (0, 1, 2, 3, 4, 6)] == [
        (3, 3), (2, 3), (1, 3), (1, 2), (0, 2), (0, 0)
    ]  # fmt: skip


def test_of_other_cards_the_nearest_is_cut_alike_with_another_degree_of_data() -> None:
    own = replace(OWN, micro_batches=64)
    here = layouts(own, 4 * own.cards, Wishes())
    assert nearest(own, here) == replace(own, data=8, micro_batches=16)
    assert nearest(own, [layout for layout in here if layout.tensors != 2]).stages == own.stages


def test_a_small_model_has_as_few_stages_as_check_lets_pass() -> None:
    shards = ("parallel.enable_parallel_optimizer=True",
              "parallel.parallel_optimizer_config={optimizer_weight_shard_size: 16}")  # fmt: skip
    long = replace(OWN, stages=8, micro_batches=64, shards_optimizer=True, deal=((4,) * 8,))
    (few, more) = small_candidates(study(QWEN3, *shards), shards, long)
    assert [item.layout.layers_of_stage for item in (few, more)] == [(1, 1, 1, 2), (1, 1, 1, 3)]
    assert [item.layout.cards for item in (few, more)] == [16, 16]
