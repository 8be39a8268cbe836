"""Plans of PyNative YAMLs, from the trace of two layers that test_pynative_whatif.py asks, too."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from swapconf.cli import plan_pynative
from swapconf.cli.planning import ROUNDS
from swapconf.config.config import Dialect
from swapconf.config.rewriting import CannotRewrite
from swapconf.config.yaml_document import parse
from swapconf.plan.limits import Budget
from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge, native_judge_of
from swapconf.plan.pynative.menu import moves, recomputes, uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeMode, NativePlan
from swapconf.plan.pynative.planned import NativePlanned, fastest, plan, spared
from swapconf.plan.runs import StageRun
from swapconf.plan.written import write
from swapconf.report.native_plan_text import verdict_lines
from swapconf.study.study import study_document
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from swapconf.words.phrases import show
from swapconf.words.units import MIB, show_bytes
from tests.helpers import TRACES, invoke, unpacked

FOLDER = unpacked(TRACES / "pynative" / "qwen3_l2_modules")
PLAIN = (FOLDER / "config.yaml").read_text(encoding="utf-8")
PAIR = Versions(mindspore="2.10.0", mindformers="2.0.0")
NONE_BYTES = 6_901_248  # of expected.txt: the true peak without swap and recompute
SEVERAL_CARDS = PLAIN.replace("global_batch_size: 1", "global_batch_size: 8")


@cache
def judge_under(
    budget_bytes: int, host_bytes: int | None = None, max_entries: int = 6, slower_link: float = 0.3
) -> NativeJudge:
    study = study_document(parse(PLAIN, "train.yaml"), PAIR, {})
    return native_judge_of(
        study,
        [FOLDER],
        Machine(hardware=hardware.load("ascend_910b2")),
        Budget(card_bytes=budget_bytes, host_bytes=host_bytes),
        slower_link=slower_link,
        max_entries=max_entries,
    )


def asked(folder: Path, text: str, budget: str, *more: str) -> tuple[Result, Path]:
    file = folder / "train.yaml"
    file.write_text(text, encoding="utf-8")
    return invoke("plan", file, "--budget", budget, "--from", FOLDER, "--beside", "0", *more), file


def answer(folder: Path, budget: str, *more: str, text: str = PLAIN) -> dict[str, Any]:
    result, _ = asked(folder, text, budget, "--format", "json", *more)
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_single_modules_are_swapped_where_that_of_layers_waits_for_the_link_and_not_where_it_costs_nothing() -> None:
    assert moves(judge_under(NONE_BYTES)) == []
    slow = judge_under(NONE_BYTES, slower_link=0.9)
    none, layers, *single = [uniform(slow, mode) for mode in (KEEP, SWAP, *moves(slow))]
    assert [plan.entries[0].path for plan in single] == ["self_attention", "mlp"]

    def worth(plan: NativePlan) -> float:
        saved = slow.used_bytes(none) - slow.used_bytes(plan)
        return saved / (slow.time(plan).step_us - slow.time(none).step_us)

    assert all(worth(plan) > worth(layers) for plan in single)


@pytest.mark.parametrize("modules", [["mlp"], ["self_attention"], ["mlp", "self_attention"]])
def test_swapped_modules_wait_for_the_link_as_their_layer_does(modules: list[str]) -> None:
    """What is hidden behind kernels is the same: only as many bytes less are waited for, once on each way."""
    slow = judge_under(NONE_BYTES, slower_link=0.99)
    layers, some = (uniform(slow, NativeMode(moved=frozenset(paths))) for paths in ([""], modules))
    less_bytes = slow.moved_bytes(layers) - slow.moved_bytes(some)
    assert 0 < less_bytes < slow.moved_bytes(layers)
    waited = slow.time(layers).stall_us - slow.time(some).stall_us
    assert waited == pytest.approx(2 * less_bytes / (slow.slower_gbps * 1e3))


def test_a_plan_that_swaps_a_module_says_so_in_the_yaml() -> None:
    judge = judge_under(NONE_BYTES)
    made = uniform(judge, NativeMode(moved=frozenset({"mlp"})))
    text = write(PLAIN, parse(PLAIN, "t.yaml"), judge.config(made), "planned")
    swap = yaml.safe_load(text)["swap"]
    assert swap == {"enable": True, "default_prefetch": 1, "op_swap": [{"op_name": "mlp", "layers": ["0"]}]}
    assert judge.moved_bytes(made) > 0


def test_nothing_is_planned_where_all_fits(tmp_path: Path) -> None:
    (rank,) = answer(tmp_path, "64MB")["ranks"]
    assert NONE_BYTES == rank["used_peak_bytes"] < rank["with_fragments_peak_bytes"]
    found = answer(tmp_path, f"{rank['with_fragments_peak_bytes']}B")
    assert found["verdict"] == "not_needed"
    assert found["needed_bytes"] == rank["with_fragments_peak_bytes"]
    assert (found["yaml"], found["entries"]) == (PLAIN, [])


def test_what_cannot_be_met_is_told_with_the_lowest(tmp_path: Path) -> None:
    result, file = asked(tmp_path, PLAIN, "2MB", "--write")
    assert result.exit_code == 3
    assert "no plan that was tried fits in 2.0M; the lowest needs" in result.output
    assert file.read_text(encoding="utf-8") == PLAIN
    found = answer(tmp_path, "2MB")
    assert answer(tmp_path, f"{found['needed_bytes']}B")["verdict"] in ("planned", "full")


def test_what_weights_and_optimizer_alone_exceed_is_refused_without_a_search(tmp_path: Path) -> None:
    """The what-if of a large model takes minutes for all plans. What helps then is told."""
    result, _ = asked(tmp_path, PLAIN, "1MB")
    assert result.exit_code == 3
    assert "no plan can fit in 1.0M; the lowest of the simple ones needs" in result.output
    assert "; what helps: " in result.output
    judge, held = judge_under(MIB), judge_under(NONE_BYTES)
    assert judge.is_out_of_reach
    assert not held.is_out_of_reach
    lowest = plan(judge, ()).chosen
    assert judge.asked == 3, "nothing, full recompute and swap of all layers"
    assert all(judge.needed_bytes(lowest) <= judge.needed_bytes(uniform(judge, mode)) for mode in (KEEP, FULL, SWAP))


def test_a_refusal_tells_what_would_fit_without_fragments() -> None:
    keep = uniform(judge_under(MIB), KEEP)
    (used,), (mapped,) = judge_under(MIB).safe_bytes(keep), judge_under(MIB).pool_bytes(keep)
    assert used < mapped - 1

    def told(budget_bytes: int) -> str:
        refused = NativePlanned(judge=judge_under(budget_bytes), verdict=Verdict.IMPOSSIBLE, chosen=keep)
        return "\n".join(map(show, verdict_lines(refused)))

    assert f"without fragments it needs {show_bytes(used)}, which fits" in told(mapped - 1)
    assert "without fragments" not in told(used - 1)


@pytest.mark.parametrize("share", [0.95, 0.85, 0.75, 0.65])
def test_a_plan_keeps_its_budget_and_is_no_slower_than_full_recompute(share: float) -> None:
    judge = judge_under(int(NONE_BYTES * share))
    found = plan(judge)
    assert found.verdict is Verdict.PLANNED
    (safe,), (pool,) = judge.safe_bytes(found.chosen), judge.pool_bytes(found.chosen)
    assert safe <= pool <= judge.limits.budget_bytes
    nothing, full = judge.time(uniform(judge, KEEP)), judge.time(uniform(judge, FULL))
    assert nothing.step_us < judge.time(found.chosen).step_us < full.step_us


def test_of_all_that_two_layers_can_do_nothing_is_faster() -> None:
    """Every mode of the menu in every layer, with and without a swap of the first."""
    judge = judge_under(int(NONE_BYTES * 0.8))
    modes = recomputes(judge)
    every = [NativePlan((first, second)) for first in (*modes, SWAP) for second in modes]
    fastest = min((one for one in every if judge.fits(one)), key=judge.cost_us)
    assert judge.cost_us(plan(judge).chosen) <= judge.cost_us(fastest)


def test_a_stage_that_fits_is_spared_what_the_next_one_needs() -> None:
    """Of two stages the second has to run two of its layers again, whichever these are."""
    chosen = NativePlan((FULL, KEEP, FULL, FULL, FULL, KEEP))
    found = spared(chosen, [{0, 1}, {2, 3, 4, 5}], lambda one: one.modes[2:].count(FULL) >= 2)
    assert found == NativePlan((KEEP, KEEP, KEEP, FULL, FULL, KEEP))
    assert spared(chosen, [{0, 1}, {2, 3, 4, 5}], lambda one: one == chosen) == chosen


def test_what_does_not_fit_says_nothing_of_the_plans_before_it() -> None:
    """Of swaps of more and more layers each uses less; fragments go up and down, and the host holds more."""

    class Judged:
        used = (100, 90, 80, 70, 60)
        fitting = frozenset({2})  # 3 loses too much to fragments, the host has no room for 4

        def could_fit(self, made: int) -> bool:
            return self.used[made] <= 85

        def fits(self, made: int) -> bool:
            return made in self.fitting

        def cost_us(self, made: int) -> float:
            return 1000.0 + made

    judge: Any = Judged()
    family: Any = (0, 1, 2, 3, 4)
    found: Any = fastest(judge, family, None)
    assert found == 2
    faster: Any = 1
    assert fastest(judge, family, faster) is None


def test_fragments_count_in_the_budget() -> None:
    """A swap brings its blocks back into memory of its own, of which what it leaves cannot be used."""
    judge, swapped = judge_under(NONE_BYTES), NativePlan((SWAP, KEEP))
    (mapped,) = judge.mapped_bytes(swapped)
    assert mapped is not None
    assert judge.used_bytes(swapped) < NONE_BYTES < mapped
    assert not judge.fits(swapped)
    assert judge_under(mapped).fits(swapped)
    assert judge.needed_bytes(swapped) == mapped


def test_where_fragments_are_not_known_the_bound_alone_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = NativePlan((FULL, KEEP))
    (safe,) = judge_under(NONE_BYTES).safe_bytes(made)
    judge = replace(judge_under(safe), _mapped={})
    assert not judge.fits(made)
    monkeypatch.setattr(judge.stages[0].question, "placement", lambda found: None)
    judge = replace(judge, _mapped={})
    assert judge.fits(made)
    assert judge.score(judge.config(made)).mapped_bytes is None


def test_the_time_of_what_runs_again_is_that_of_its_kernels() -> None:
    judge = judge_under(NONE_BYTES)
    kept, both = judge.time(uniform(judge, KEEP)), judge.time(uniform(judge, FULL))
    one = judge.time(NativePlan((FULL, KEEP)))
    assert both.step_us == pytest.approx(kept.step_us + both.again_us)
    assert 0 < one.again_us < both.again_us < kept.step_us
    assert both.stall_us == 0


def test_a_link_that_is_slow_enough_makes_the_step_wait_for_what_it_moves() -> None:
    judge = judge_under(NONE_BYTES)
    parts = judge.stages[0].question.parts(judge.config(NativePlan((SWAP, KEEP))))
    moved = judge.moved_bytes(NativePlan((SWAP, KEEP)))
    assert judge.stages[0].times.time(parts, 1e6).stall_us == pytest.approx(0, abs=1)
    slow_gbps = 0.1
    stall_us = judge.stages[0].times.time(parts, slow_gbps).stall_us
    both_ways_us = 2 * moved / (slow_gbps * 1e9) * 1e6
    assert 0.9 * both_ways_us < stall_us < both_ways_us, "but for what the layer between hides"


def test_a_swap_that_the_host_has_no_room_for_is_not_planned() -> None:
    swapped = NativePlan((SWAP, KEEP))
    free, tight = judge_under(2 * NONE_BYTES), judge_under(2 * NONE_BYTES, host_bytes=1)
    assert free.fits(swapped)
    assert not tight.fits(swapped)


def test_no_more_entries_are_planned_than_are_allowed() -> None:
    few = plan(judge_under(int(NONE_BYTES * 0.7), max_entries=1))
    assert len(few.chosen.entries) == 1
    many = plan(judge_under(int(NONE_BYTES * 0.7)))
    assert many.judge.time(many.chosen).step_us <= few.judge.time(few.chosen).step_us


def test_a_module_around_another_takes_its_place() -> None:
    inner = NativeMode(frozenset({"mlp.linear_fc1", "self_attention"}))
    assert inner.joined("mlp") == NativeMode(frozenset({"mlp", "self_attention"}))
    assert inner.joined("self_attention.linear_qkv") is None


@pytest.mark.parametrize("share", [0.95, 0.8, 0.65])
def test_the_written_yaml_keeps_all_else_decides_the_same_and_check_finds_nothing(tmp_path: Path, share: float) -> None:
    before = SEVERAL_CARDS.replace("optimizer:", "# mine\nswap:\n  enable: False  # not yet\n\noptimizer:", 1)
    result, file = asked(tmp_path, before, f"{int(NONE_BYTES * share)}B", "--write")
    assert result.exit_code == 0, result.output
    text = file.read_text(encoding="utf-8")
    assert "# mine" in text
    assert "# planned by swapconf for" in text
    assert [line for line in before.splitlines() if line not in text.splitlines()] in (
        [],
        ["  enable: False  # not yet"],
    )
    study = study_document(parse(text, "train.yaml"), PAIR, {})
    assert {found.severity for found in study.findings} == {Severity.NOTE}
    judge = judge_under(int(NONE_BYTES * share))
    assert judge.stages[0].question.parts(study.config) == judge.stages[0].question.parts(
        judge.config(plan(judge).chosen)
    )
    again, _ = asked(tmp_path, text, f"{int(NONE_BYTES * share)}B", "--diff")
    assert not again.stdout, "planned again it is as it was"


def test_a_plan_takes_the_place_of_what_stood_there(tmp_path: Path) -> None:
    old = "recompute:\n  mode: full\n  full_recompute_layer: ['0-1']  # all\n  exclude_op: ['matmul']\n"
    result, file = asked(tmp_path, SEVERAL_CARDS + old, "64MB", "--write")
    assert result.exit_code == 0, result.output
    written = file.read_text(encoding="utf-8").removeprefix(SEVERAL_CARDS)
    assert written == "recompute:\n  mode: None\n  # all\n"


@pytest.mark.parametrize("layers", [3, 4])
def test_a_plan_of_all_layers_is_written_where_the_command_line_says_how_many_there_are(
    tmp_path: Path, layers: int
) -> None:
    """Two of the three or four that the file has: it does not read as all of them."""
    text = SEVERAL_CARDS.replace("num_hidden_layers: 2", f"num_hidden_layers: {layers}")
    budget = f"{int(NONE_BYTES * 0.75)}B"
    found = answer(tmp_path, budget, "--set", "model.num_hidden_layers=2", text=text)
    assert any(entry["layers"] == [0, 1] for entry in found["entries"])
    assert found["yaml"] != text
    assert yaml.safe_load(found["yaml"])["recompute"] == yaml.safe_load(answer(tmp_path, budget)["yaml"])["recompute"]


def test_a_plan_of_graph_mode_is_not_written_into_it() -> None:
    judge = judge_under(NONE_BYTES)
    graph = replace(judge.config(NativePlan((FULL, KEEP))), dialect=Dialect.LEGACY)
    with pytest.raises(CannotRewrite, match="of PyNative mode"):
        write(PLAIN, parse(PLAIN, "train.yaml"), graph, "x")


@pytest.mark.parametrize("option", [("--stages",), ("--measured", ".")])
def test_what_is_not_there_in_pynative_mode_is_told(tmp_path: Path, option: tuple[str, ...]) -> None:
    result, _ = asked(tmp_path, PLAIN, "64MB", *option)
    assert result.exit_code == 2
    assert f"{option[0]} is not there in PyNative mode" in result.output


def test_a_trace_of_another_model_is_refused(tmp_path: Path) -> None:
    result, _ = asked(tmp_path, PLAIN.replace("num_hidden_layers: 2", "num_hidden_layers: 3"), "64MB")
    assert result.exit_code == 2
    assert "the layers of the trace are not those of the YAML" in result.output


def test_a_plan_for_one_card_says_that_mindformers_does_nothing_of_it_there(tmp_path: Path) -> None:
    result, _ = asked(tmp_path, PLAIN, "6MB")
    assert result.exit_code == 0, result.output
    assert "this YAML is of one card" in result.output
    assert "estimated from the shapes of kernels" in result.output


def test_a_plan_says_that_as_many_cards_as_there_will_be_are_taken_for_one(tmp_path: Path) -> None:
    text = PLAIN.replace("data_parallel_shard: 1", "data_parallel_shard: -1")
    assert text != PLAIN
    result, _ = asked(tmp_path, text, "6MB")
    assert "-1 means all cards of the launch" in result.stderr
    assert "means all cards" not in asked(tmp_path, PLAIN, "6MB")[0].stderr


def test_a_plan_for_shards_says_that_it_is_to_be_confirmed(tmp_path: Path) -> None:
    folder = unpacked(TRACES / "pynative" / "qwen3_l2_shards")
    file = tmp_path / "train.yaml"
    file.write_text((folder / "config.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    result = invoke("plan", file, "--budget", "1080KB", "--from", folder, "--beside", "0")
    assert result.exit_code == 0, result.output
    assert "recompute whole layers" in result.output
    assert "on shards threads race" in result.output


def true_runs(monkeypatch: pytest.MonkeyPatch, *more_bytes: int) -> list[str]:
    """Each round's true run of a plan needs so much more with fragments than was predicted. The YAMLs that were run."""
    ran: list[str] = []

    def run(study: Any, changes: Any, text: str, runs: Any) -> list[StageRun]:
        judge = judge_under(NONE_BYTES)
        config = study_document(parse(text, "train.yaml"), PAIR, {}).config
        score = judge.score(config)
        pool = max(score.mapped_bytes or 0, score.safe_bytes) + more_bytes[len(ran)]
        ran.append(text)
        used = score.used_bytes
        return [
            StageRun(rank=0, stage=0, folder=Path(), used_peak_bytes=used, with_fragments_peak_bytes=pool, host_bytes=0)
        ]

    monkeypatch.setattr(plan_pynative, "run_plan", run)
    monkeypatch.setattr(plan_pynative, "_stop_what_has_no_dry_run", lambda study: None)
    return ran


def test_a_plan_whose_true_run_needs_too_much_is_planned_again_with_what_it_taught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = int(NONE_BYTES * 0.85)
    ran = true_runs(monkeypatch, budget // 10, budget // 20)
    found = answer(tmp_path, f"{budget}B", "--confirm")
    first, second = ran
    assert first != second == found["yaml"]
    assert [one["fits"] for one in found["confirmed"]] == [True]
    (true,), (predicted,) = found["confirmed"], found["ranks"]
    assert true["with_fragments_peak_bytes"] <= budget
    assert predicted["with_fragments_peak_bytes"] + budget // 10 <= budget, "the next plan leaves free what was lacking"
    assert found["needed_bytes"] <= budget


def test_where_one_plan_loses_so_much_to_fragments_that_nothing_would_fit_one_that_uses_less_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses a block of the largest tensor, which is no measure of what others lose."""
    budget = int(NONE_BYTES * 0.85)
    ran = true_runs(monkeypatch, budget * 6 // 10, budget * 6 // 10, 0)
    result, file = asked(tmp_path, PLAIN, f"{budget}B", "--confirm", "--write")
    assert result.exit_code == 0, result.output
    judge = judge_under(budget)
    used = [judge.score(study_document(parse(text, "train.yaml"), PAIR, {}).config).used_bytes for text in ran]
    assert used[0] > used[1] > used[2]
    assert file.read_text(encoding="utf-8") == ran[-1]
    assert f"may take {show_bytes(budget)}; planning again" in result.stderr


def test_a_plan_that_no_round_confirms_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = int(NONE_BYTES * 0.95)
    ran = true_runs(monkeypatch, *(budget * share // 100 for share in (8, 16, 24, 30, 36)))
    result, _ = asked(tmp_path, PLAIN, f"{budget}B", "--confirm")
    assert result.exit_code == 1
    assert len(set(ran)) == ROUNDS
    assert result.stderr.count("planning again") == ROUNDS - 1
