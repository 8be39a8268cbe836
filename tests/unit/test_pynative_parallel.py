"""What the stand-in for hyper_parallel counts of a parallel layout without a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec

import pytest

from swapconf.config.cluster import Cluster
from swapconf.config.yaml_document import parse
from swapconf.dryrun.effect.effect import Effect, Launch
from swapconf.dryrun.outcome import RankOutcome, RankReport, origin
from swapconf.dryrun.pynative import refusals as refusing
from swapconf.dryrun.pynative.compare_layers import compare_layers
from swapconf.dryrun.pynative.hyper_parallel_stand_in.layout import Layout
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.placements import Partial, Replicate, Shard, local_shape
from swapconf.dryrun.pynative.hyper_parallel_stand_in.schedules import (
    Act,
    Step,
    all_forward_first,
    interleaved,
    one_forward_one_backward,
)
from swapconf.dryrun.pynative.refusals import refusals
from swapconf.dryrun.rank_order import cluster_of, ranks_of
from swapconf.dryrun.report_record import as_record
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from swapconf.upstream.scopes import Place
from swapconf.words.findings import Finding

NEWER = Versions(mindspore="2.10.0", mindformers="2.1.0")
OLDER = Versions(mindspore="2.10.0", mindformers="2.0.0")
SENT = {Act.RECEIVE_INPUT: (Act.SEND_OUTPUT, -1), Act.RECEIVE_GRADIENT: (Act.SEND_GRADIENT, 1)}
COMPUTED = {Act.SEND_OUTPUT: Act.FORWARD, Act.SEND_GRADIENT: Act.BACKWARD}


def studied(parallelism: str, more: str = "", versions: Versions = NEWER) -> Study:
    text = (
        "training: {global_batch_size: 64}\n"
        f"parallelism:\n  sequence_parallel: True\n  {parallelism}\nmodel: {{num_hidden_layers: 4}}\n{more}"
    )
    return study_document(parse(text, "t.yaml"), versions, {})


def refused(parallelism: str, more: str = "", versions: Versions = NEWER) -> list[Finding]:
    return list(refusals(studied(parallelism, more, versions), 1))


def run_through(orders: Sequence[Sequence[Step]], stages: int, micros: int) -> None:
    """Each rank in its order; fails where one waits for what nobody sends, or computes what it has not received."""
    done: set[tuple[Act, int, int]] = set()
    at = [0] * len(orders)
    while any(place < len(order) for place, order in zip(at, orders, strict=True)):
        before = list(at)
        for rank, order in enumerate(orders):
            while at[rank] < len(order) and _may_run(order[at[rank]], stages, done):
                step = order[at[rank]]
                assert (step.act, step.stage, step.micro) not in done
                done.add((step.act, step.stage, step.micro))
                at[rank] += 1
        assert before != at, "all ranks wait"
    for act in (Act.FORWARD, Act.BACKWARD):
        assert {(act, stage, micro) for stage in range(stages) for micro in range(micros)} <= done


def _may_run(step: Step, stages: int, done: set[tuple[Act, int, int]]) -> bool:
    if step.act in SENT:
        act, where = SENT[step.act]
        return (act, step.stage + where, step.micro) in done
    if step.act in COMPUTED:
        assert (COMPUTED[step.act], step.stage, step.micro) in done
    if step.act is Act.FORWARD and step.stage:
        assert (Act.RECEIVE_INPUT, step.stage, step.micro) in done
    if step.act is Act.BACKWARD:
        assert (Act.FORWARD, step.stage, step.micro) in done
        assert step.stage == stages - 1 or (Act.RECEIVE_GRADIENT, step.stage, step.micro) in done
    return True


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("micros", [1, 2, 3, 4, 5, 8, 11])
def test_no_rank_of_a_pipeline_waits_for_ever_and_each_computes_every_micro_batch(ranks: int, micros: int) -> None:
    run_through([one_forward_one_backward(rank, ranks, micros) for rank in range(ranks)], ranks, micros)
    run_through([all_forward_first(rank, ranks, micros) for rank in range(ranks)], ranks, micros)
    for chunks in (2, 3):
        run_through([interleaved(rank, ranks, chunks, micros) for rank in range(ranks)], ranks * chunks, micros)


def held(order: Sequence[Step]) -> int:
    """The most micro-batches whose backward pass is still to come, at once."""
    most = now = 0
    for step in order:
        now += {Act.FORWARD: 1, Act.BACKWARD: -1}.get(step.act, 0)
        most = max(most, now)
    return most


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages_and_all_of_them_with_gpipe() -> None:
    assert [held(one_forward_one_backward(stage, 4, 16)) for stage in range(4)] == [4, 3, 2, 1]
    assert [held(all_forward_first(stage, 4, 16)) for stage in range(4)] == [16] * 4
    assert [held(interleaved(rank, 4, 2, 16)) for rank in range(4)] == [11, 9, 7, 5]


def test_a_rank_has_the_part_of_a_tensor_that_its_placements_leave() -> None:
    mesh = DeviceMesh(tuple(range(8)), (2, 4), ("tp", "fsdp"), 6)
    assert local_shape((64, 32), mesh["tp"], (Shard(0),)) == (32, 32)
    assert local_shape((64, 32), mesh, (Shard(1), Shard(0))) == (16, 16)
    assert local_shape((64, 32), mesh, (Replicate(), Partial())) == (64, 32)
    with pytest.raises(ValueError, match="does not go into 4 equal parts"):
        local_shape((6, 32), mesh["fsdp"], (Shard(0),))
    layout = Layout(mesh, (Shard(0), Shard(0)))
    assert (layout.get_split_id(0), layout.get_split_id(1), layout.repeat_num()) == (6, 0, 1)
    assert Layout(mesh, (Replicate(), Shard(0))).repeat_num() == 2


def test_a_mesh_knows_the_one_that_it_is_taken_from() -> None:
    world = DeviceMesh(tuple(range(8)), (8,), ("world",), 5)
    mesh = world._unflatten(0, (2, 1, 2, 2), ("pp", "batch", "cp", "tp"))
    assert mesh["pp"].rank_list == (1, 5)
    assert mesh["pp"].parent is mesh
    assert (mesh["pp"].parent.size("cp"), mesh["tp"].get_local_rank()) == (2, 1)


def test_ranks_of_stages_and_experts_are_told_from_the_layout() -> None:
    degrees = "data_parallel_shard: 2, tensor_parallel: 2, pipeline_parallel: 2, expert_parallel: 4"
    document = parse(f"parallelism: {{{degrees}}}\n", "t.yaml")
    cluster = cluster_of(document)
    assert cluster == Cluster(data_parallel=2, model_parallel=2, num_stages=2, expert_parallel=4)
    assert cluster.num_devices == 8
    assert ranks_of("stages", cluster) == (0, 4)


@pytest.mark.parametrize(
    "parallelism",
    [
        "tensor_parallel: 2",
        "context_parallel: 2",
        "pipeline_parallel: 2",
        "expert_parallel: 2\n  data_parallel_shard: 2",
        "data_parallel_shard: 4\n  dense_fsdp_shard_size: 2",
    ],
)
def test_what_2_1_asks_of_the_stand_in_is_dry_run_and_of_2_0_shards_alone(parallelism: str) -> None:
    assert not refused(parallelism)
    told = [finding.message for finding in refused(parallelism, versions=OLDER)]
    assert len(told) == ("dense" not in parallelism)
    assert all("has no dry run with mindformers 2.0.0" in one for one in told)


@pytest.mark.parametrize(
    ("parallelism", "more", "words", "hint"),
    [
        ("tensor_parallel: 2\n  enable_mc2: True", "", "(MC2)", "parallelism.enable_mc2=False"),
        ("context_parallel: 2\n  context_parallel_async: True", "", "asynchronous", "context_parallel_async=False"),
        ("pipeline_parallel: 2\n  pipeline_parallel_overlap_b_f: True", "", "overlapping passes", "overlap_b_f=False"),
        ("pipeline_parallel: 2\n  pipeline_parallel_overlap_p2p: True", "", "transfers", "overlap_p2p=False"),
        ("pipeline_parallel: 2", "swap: {enable: True}\n", "swap in a pipeline", "swap.enable=False"),
        (
            "expert_parallel: 2\n  moe_token_dispatcher_type: alltoall_deredundancy",
            "",
            "dispatch of tokens",
            "moe_token_dispatcher_type=alltoall",
        ),
        ("tensor_parallel: 2\n  cpu_offload: True", "", "shards on the host", "cpu_offload=False"),
    ],
)
def test_what_the_stand_in_lacks_is_refused_at_its_line_and_nothing_is_where_hyper_parallel_is_installed(
    parallelism: str, more: str, words: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = refused(parallelism, more)
    assert words in found.message
    assert hint in found.hint
    assert found.origin.line is not None
    monkeypatch.setattr(refusing, "find_spec", lambda name: ModuleSpec(name, None))
    assert not refused(parallelism, more)


def test_muon_on_shards_is_dry_run_with_2_1_and_refused_with_2_0() -> None:
    assert not refused("data_parallel_shard: 2", "optimizer: {type: Muon}\n")
    (found,) = refused("data_parallel_shard: 2", "optimizer: {type: Muon}\n", OLDER)
    assert "Muon on shards has no dry run with mindformers 2.0.0" in found.message
    assert "optimizer.type=AdamW" in found.hint
    assert found.origin.path == "optimizer.type"


def test_a_context_of_sparse_attention_is_refused() -> None:
    text = "training: {}\nparallelism: {context_parallel: 2}\nmodel: {model_type: deepseek_v4, num_hidden_layers: 4}\n"
    (found,) = refusals(study_document(parse(text, "t.yaml"), NEWER, {}), 1)
    assert "sparse attention" in found.message


def test_layers_of_other_stages_are_not_missed() -> None:
    study = studied("pipeline_parallel: 2", "recompute: {mode: full, full_recompute_layer: ['0-3']}\n")
    effect = Effect(
        layers=frozenset("23"),
        moves=(),
        host_peak_bytes=0,
        recomputed=tuple(Launch(Place(layer, ""), "MatMulExt") for layer in "23"),
    )
    assert compare_layers(study, effect) == []


def test_a_report_says_the_layout() -> None:
    report = RankReport(file="t.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED, hyper_parallel="here")
    assert not report.is_shared
    shared = replace(report, layout="tensor_parallel 2, expert_parallel 4")
    assert shared.is_shared
    assert "tensor_parallel 2, expert_parallel 4" in origin(shared)
    assert as_record(shared)["layout"] == shared.layout
