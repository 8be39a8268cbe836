"""What a PyNative YAML means for a dry run, before and around its child."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swapconf.config.cluster import Cluster
from swapconf.config.yaml_document import parse
from swapconf.dryrun import came_to
from swapconf.dryrun.by_step import STEPS
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.job import Folder
from swapconf.dryrun.outcome import RankOutcome, RankReport, origin
from swapconf.dryrun.pynative.batches import Batches, batches
from swapconf.dryrun.pynative.columns import columns
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.layer_cells import layers_of
from swapconf.dryrun.pynative.refusals import RULE, refusals, told_of_all_cards, told_of_one_card
from swapconf.dryrun.pynative.training import leave_out
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.dryrun.report_record import as_record
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from tests.helpers import ROOT

CONFIGS = ROOT / "configs" / "pynative"
PAIR = Versions(mindspore="2.10.0", mindformers="2.0.0")


def studied(text: str, versions: Versions = PAIR) -> Study:
    return study_document(parse(text, "train.yaml"), versions, {})


def of_file(name: str, versions: Versions = PAIR) -> Study:
    return studied((CONFIGS / name).read_text(encoding="utf-8"), versions)


@pytest.mark.parametrize("name", ["qwen3.yaml", "deepseek_v3.yaml"])
def test_the_examples_are_dry_run_with_the_pair_that_they_name(name: str) -> None:
    assert not list(refusals(of_file(name), 1))


def test_a_graph_mode_config_is_not_judged() -> None:
    document = parse((ROOT / "configs/small/qwen3_default_swap.yaml").read_text(encoding="utf-8"), "graph.yaml")
    assert not list(refusals(study_document(document, Versions(), {}), 3))


def test_an_older_pair_is_refused_by_name() -> None:
    told = [
        finding.message
        for finding in refusals(of_file("qwen3.yaml", Versions(mindspore="2.9.0", mindformers="1.9.0")), 1)
    ]
    assert told == [
        "PyNative training begins with mindformers 2.0.0, and 1.9.0 is installed here",
        "PyNative training begins with mindspore 2.10.0, and 2.9.0 is installed here",
    ]


@pytest.mark.parametrize("level", [0, 2, 3])
def test_only_level_1_is_there(level: int) -> None:
    (found,) = refusals(of_file("qwen3.yaml"), level)
    assert found.rule == RULE
    assert f"level {level} " in found.message


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("tensor_parallel", "tensor parallelism over 4 ranks"),
        ("context_parallel", "context parallelism over 4 ranks"),
        ("pipeline_parallel", "a pipeline of 4 stages"),
        ("expert_parallel", "expert parallelism over 4 ranks"),
    ],
)
def test_what_needs_other_ranks_is_refused_at_its_line(key: str, words: str) -> None:
    text = f"training: {{steps: 2}}\nparallelism:\n  {key}: 4\nmodel: {{num_hidden_layers: 2}}\n"
    (found,) = refusals(studied(text), 1)
    assert words in found.message
    assert (found.origin.line, found.origin.column) == (3, 3)
    assert f"--set parallelism.{key}=1" in found.hint
    assert "mindformers 2.1.0" in found.hint


SHARDED = """training:
  local_batch_size: 2
  global_batch_size: 16
parallelism:
  data_parallel_shard: 8
model: {num_hidden_layers: 2}
"""


def test_shards_of_parameters_have_a_dry_run() -> None:
    assert not list(refusals(studied(SHARDED), 1))
    assert not list(refusals(studied(SHARDED.replace("shard: 8", "shard: 8\n  dense_fsdp_shard_size: 2")), 1))


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        ("  cpu_offload: True", "shards on the host have no dry run", "--set parallelism.cpu_offload=False"),
        ("optimizer: {type: Muon}", "Muon on shards has no dry run with", "--set optimizer.type=AdamW"),
        ("  tensor_parallel: 2", "tensor parallelism over 2 ranks", "--set parallelism.tensor_parallel=1"),
    ],
)
def test_what_shards_do_not_have_in_the_stand_in_is_refused_at_its_line(line: str, words: str, hint: str) -> None:
    (found,) = refusals(studied(SHARDED.replace("shard: 8", f"shard: 8\n{line}")), 1)
    assert words in found.message
    assert found.origin.line == 6
    assert hint in found.hint


@pytest.mark.parametrize(("size", "is_refused"), [(256, False), (100, True)])
def test_norms_that_do_not_go_into_equal_shards_are_refused_at_the_line_of_the_ranks(
    size: int, is_refused: bool
) -> None:
    text = SHARDED.replace("num_hidden_layers: 2", f"num_hidden_layers: 2, hidden_size: {size}, n_routed_experts: 4")
    found = list(refusals(studied(text), 1))
    assert [finding.message.partition(" do not go into 8 ")[0] for finding in found] == (
        ["norms of hidden_size 100"] * is_refused
    )
    assert all((finding.origin.line, finding.origin.column) == (5, 3) for finding in found)


def test_a_batch_that_the_ranks_cannot_share_is_refused_before_mindformers_stops() -> None:
    study = studied(SHARDED.replace("global_batch_size: 16", "global_batch_size: 8"))
    (found,) = (finding for finding in study.findings if finding.rule == "pynative-batch")
    assert study.is_refused
    assert (found.origin.line, found.origin.path) == (3, "training.global_batch_size")
    assert "8 ranks of local_batch_size 2 cannot share a global_batch_size of 8" in found.message
    assert "a multiple of 16" in found.hint


def test_a_mesh_knows_its_ranks_without_a_device() -> None:
    world = DeviceMesh(tuple(range(8)), (8,), ("world",), 5)
    mesh = world._unflatten(0, (1, 2, 4, 1), ("pp", "dp_replicate", "fsdp", "tp"), backend_override={"pp": "fake"})
    assert (mesh.ndim, mesh.size(), mesh.size("fsdp"), mesh.size(1)) == (4, 8, 4, 2)
    assert mesh["fsdp"].ranks == (4, 5, 6, 7)
    assert mesh["dp_replicate"].ranks == (1, 5)
    assert mesh["fsdp"].get_local_rank() == 1
    both = mesh["dp_replicate", "fsdp"]
    assert (both.mesh_shape, both.mesh_dim_names) == ((2, 4), ("dp_replicate", "fsdp"))
    assert both._flatten("loss_mesh").ranks == tuple(range(8))
    assert mesh.get_rank_list_along_axis("dp_replicate") == [1, 5]
    with pytest.raises(ValueError, match="8 ranks do not make a mesh"):
        DeviceMesh(tuple(range(8)), (4, 4), ("a", "b"), 0)


def test_no_child_is_started_for_what_is_refused(tmp_path: Path) -> None:
    document = parse("training: {}\nparallelism: {tensor_parallel: 2}\nmodel: {num_hidden_layers: 2}\n", "t.yaml")
    report = dry_run(RankOrder(document=document, rank=1, keep=tmp_path / "kept"))
    assert report.outcome is RankOutcome.NOT_STARTED
    assert {finding.rule for finding in report.findings} == {RULE}
    assert not (tmp_path / "kept").exists()


def test_its_devices_are_those_of_parallelism() -> None:
    document = parse("parallelism: {data_parallel_shard: 4, tensor_parallel: 2, pipeline_parallel: 2}\n", "t.yaml")
    assert cluster_of(document) == Cluster(data_parallel=4, model_parallel=2, num_stages=2)
    assert cluster_of(parse("parallelism: {data_parallel_shard: -1}\n", "t.yaml")).num_devices == 1


def test_columns_are_those_that_the_loader_names_at_the_length_of_the_model() -> None:
    settings = {
        "model": {"seq_length": 64},
        "train_dataset": {"dataloader": {"column_names": ["input_ids", "loss_mask"], "config": {"seq_length": 32}}},
    }
    assert [(one.name, one.kind, one.shape) for one in columns(settings)] == [
        ("input_ids", "int32", (64,)),
        ("loss_mask", "float32", (64,)),
    ]


def test_columns_that_nobody_names_are_those_of_a_megatron_data_set() -> None:
    settings: dict[str, Any] = {"train_dataset": {"dataloader": {"config": {"seq_length": 32}}}}
    assert [one.name for one in columns(settings)] == ["input_ids", "labels", "loss_mask", "position_ids"]
    settings["train_dataset"]["dataloader"]["config"]["create_compressed_eod_mask"] = True
    assert columns(settings)[-1].name == "actual_seq_len"


def test_two_steps_run_and_nothing_is_loaded_or_saved() -> None:
    given = {
        "training": {"steps": 1000, "global_batch_size": 8},
        "checkpoint": {"enable_save": True, "load_path": "weights", "prefix": "x"},
        "callbacks": [{"type": "Own"}],
        "model": {"num_hidden_layers": 2},
    }
    assert leave_out(given, STEPS) == {
        "training": {"steps": STEPS, "global_batch_size": 8},
        "checkpoint": {"enable_save": False, "load_path": "", "prefix": "x"},
        "model": {"num_hidden_layers": 2},
    }
    assert STEPS == 2  # the optimizer's state is first there in the second
    assert given["training"]["steps"] == 1000  # type: ignore[index]


def test_a_batch_that_grows_is_as_large_from_the_first_step_on_as_it_gets() -> None:
    given = {"training": {"steps": 9, "global_batch_size": 8, "rampup_batch_size": [2, 2, 64]}}
    assert leave_out(given, 5)["training"] == {"steps": 5, "global_batch_size": 8}


@pytest.mark.parametrize(
    ("mindformers", "expected"),
    [
        ("2.0.0", Batches(samples=8, count=3)),  # it cuts one batch of a step into micro-batches
        ("2.1.0", Batches(samples=2, count=12)),  # it takes a batch for each micro-batch
    ],
)
def test_the_stand_in_data_are_cut_as_the_release_takes_them(mindformers: str, expected: Batches) -> None:
    settings = {"training": {"global_batch_size": 16, "local_batch_size": 2}}
    versions = Versions(mindspore="2.10.0", mindformers=mindformers)
    assert batches(settings, Cluster(data_parallel=2), versions, 3) == expected


def test_sizes_of_batches_that_are_not_given_are_1_as_for_mindformers() -> None:
    assert batches({}, Cluster(), Versions(mindformers="2.1.0"), 2) == Batches(samples=1, count=2)
    assert batches({"training": None}, Cluster(data_parallel=8), Versions(mindformers="2.0.0"), 2) == Batches(1, 2)


def test_a_run_that_compiles_nothing_is_in_step_1_after_building(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.log.write_text("")
    folder.flags.write_text(json.dumps({"hyper_parallel": "1.0.0"}))
    folder.result.write_text(json.dumps({"steps": 0, "compiles": False}))
    assert came_to.came_to(folder) == "in step 1"
    assert came_to.hyper_parallel(folder) == "1.0.0"
    folder.result.write_text(json.dumps({"steps": 0}))
    assert came_to.came_to(folder) == "while the graph was compiled or in step 1"


def test_a_report_says_which_hyper_parallel_it_had() -> None:
    report = RankReport(
        file="t.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED, hyper_parallel="swapconf's stand-in"
    )
    assert origin(report).endswith("PyNative with hyper_parallel swapconf's stand-in")
    assert as_record(report)["hyper_parallel"] == "swapconf's stand-in"
    assert as_record(report)["shards"] == 1
    sharded = origin(replace(report, shards=8, as_parallel=True))
    assert sharded.endswith("swapconf's stand-in, which shares out the parameters over 8 ranks (FSDP)")


RECOMPUTE = "recompute: {mode: full, full_recompute_layer: ['0-1']}\nmodel: {num_hidden_layers: 2}\n"


def test_a_run_that_may_be_on_several_cards_is_told_that_one_is_simulated() -> None:
    (found,) = told_of_one_card(studied(f"training: {{global_batch_size: 8}}\n{RECOMPUTE}"))
    assert (found.rule, found.origin.line) == ("pynative-one-card", 2)
    assert not list(told_of_one_card(studied("training: {global_batch_size: 8}\nmodel: {num_hidden_layers: 2}\n")))
    certain = studied(f"training: {{global_batch_size: 1}}\n{RECOMPUTE}")  # `check` has told it already
    assert not list(told_of_one_card(certain))
    assert "pynative-one-card" in {finding.rule for finding in certain.findings}


@pytest.mark.parametrize(("degree", "told"), [("-1", 1), ("-2", 1), ("1", 0), ("8", 0)])
def test_all_cards_of_a_launch_are_told_to_be_one_here(degree: str, told: int) -> None:
    found = list(told_of_all_cards(studied(f"parallelism: {{data_parallel_shard: {degree}}}\n{RECOMPUTE}")))
    assert [finding.severity for finding in found] == [Severity.NOTE] * told


@pytest.mark.parametrize("degree", ["tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel"])
def test_a_degree_above_1_makes_it_a_run_of_several_cards(degree: str) -> None:
    assert studied("training: {}\n").config.pipeline.is_one_card
    assert not studied(f"training: {{}}\nparallelism: {{{degree}: 2}}\n").config.pipeline.is_one_card


def test_on_one_card_nothing_of_what_is_asked_for_happens() -> None:
    (decided,) = studied(f"training: {{}}\n{RECOMPUTE}").modules
    assert (decided.effect, decided.reason.rule) == ("nothing", "pynative-one-card")
    (decided,) = studied(f"training: {{global_batch_size: 2}}\n{RECOMPUTE}").modules
    assert decided.effect == "recompute"


class Cell:
    """As much of mindspore's as the search for layers looks at."""

    def __init__(self, **cells: Any) -> None:
        self._cells = cells
        for name, cell in cells.items():
            setattr(self, name, cell)

    def cells_and_names(self, prefix: str = "") -> Any:
        yield prefix, self
        for name, cell in self._cells.items():
            if isinstance(cell, Cell):
                yield from cell.cells_and_names(f"{prefix}.{name}" if prefix else name)


def test_layers_are_found_inside_of_what_wraps_them_and_predicted_tokens_come_last() -> None:
    first, second, extra = Cell(), Cell(), Cell()
    decoder = Cell()
    decoder.layers = [first, Cell(_ckpt_wrapped_module=Cell(_ckpt_wrapped_module=second))]  # type: ignore[attr-defined]
    decoder.layer_start, decoder.config = 4, type("C", (), {"num_layers": 6})  # type: ignore[attr-defined]
    block = Cell()
    block.layers = [extra]  # type: ignore[attr-defined]
    model = Cell(inner=Cell(decoder=decoder, mtp=block))
    assert list(layers_of(model)) == [(4, first), (5, second), (6, extra)]
    assert list(layers_of(Cell())) == []
