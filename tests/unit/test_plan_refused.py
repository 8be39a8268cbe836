"""What MindSpore does not compile is not planned: what is known, and what a true run shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from swapconf.cli import planning
from swapconf.cli.main import main
from swapconf.plan import refused
from swapconf.plan.modes import Atom, Plan, entries, uniform
from swapconf.plan.planned import needed_bytes, plan
from swapconf.plan.runs import NoRun, StageRun
from swapconf.study.study import Study
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT, TRACES, study_of, study_of_values
from tests.unit.planning import made_up_judge

WEIGHTS, NORM, ATTENTION = (Atom("recompute", path) for path in ("feed_forward.w2", "norm", "attention"))


def known(study: Study) -> frozenset[refused.Refused]:
    assert study.network is not None
    return refused.known(study.config, study.network, Versions())


def test_the_norms_of_queries_and_keys_are_refused_by_themselves() -> None:
    values = {"use_legacy": False, "model": {"model_config": {"model_type": "qwen3", "num_hidden_layers": 2}}}
    assert known(study_of_values(values)) == {
        frozenset({Atom("recompute", f"self_attention.{name}")}) for name in ("q_layernorm", "k_layernorm")
    }


def test_the_norms_of_latent_attention_are_not() -> None:
    study = study_of(ROOT / "configs" / "small" / "deepseek_v3_default_swap.yaml")
    assert study.network is not None
    assert any("self_attention.q_layernorm" in template.by_path for template in study.network.templates)
    assert not known(study)


@pytest.mark.parametrize(("parts", "whole"), [(1, set()), (2, {frozenset({Atom("recompute", "")})})])
def test_whole_layers_are_refused_where_sequences_come_in_parts(parts: int, whole: set[object]) -> None:
    values = {
        "use_parallel": True,
        "parallel_config": {"pipeline_stage": 2, "seq_split_num": parts},
        "model": {"model_config": {"type": "LlamaConfig", "num_layers": 2}, "arch": {"type": "LlamaForCausalLM"}},
    }
    assert known(study_of_values(values)) == whole


def test_a_refused_plan_does_not_fit_and_what_is_planned_has_none_of_it() -> None:
    judge = made_up_judge(4)
    low, high = (needed_bytes(judge, uniform(mode, judge.network)) for mode in (frozenset({ATTENTION}), frozenset()))
    judge = judge.under(made_up_judge(4, budget_bytes=(low + high) // 2).limits)
    first = plan(judge, effort=0.2).chosen
    assert first.fits
    without = judge.without(frozenset(first.entries))
    assert not without.score(first.plan).fits
    second = plan(without, effort=0.2).chosen
    assert second.fits
    assert not refused.has(second.plan, without.refused)
    assert judge.score(first.plan).fits, "another judge's refusals are not those of the first"


def test_the_entries_that_fail_together_are_found() -> None:
    whole = uniform(frozenset({WEIGHTS, NORM, ATTENTION}), made_up_judge(3).network)
    asked: list[Plan] = []

    def fails(less: Plan) -> bool:
        asked.append(less)
        return {WEIGHTS, NORM} <= set(entries(less))

    assert refused.narrowed(whole, fails) == {WEIGHTS, NORM}
    assert len(asked) == 3
    assert refused.narrowed(uniform(frozenset({NORM}), made_up_judge(3).network), fails) == {NORM}


def test_a_plan_that_mindspore_fails_on_is_planned_again_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "train.yaml"
    config.write_text((TRACES / "llama.yaml").read_text())
    ran: list[str] = []

    def again(text: str) -> bool:
        return "feed_forward" in yaml.safe_load(text)["recompute_config"].get("select_recompute", {})

    def run(study: Any, changes: Any, text: str, runs: Any, ranks: Any = ()) -> list[StageRun]:
        ran.append(text)
        if again(text):
            raise NoRun("rank 0 stopped with an error", crashed=[0])
        return [
            StageRun(rank=0, stage=0, folder=tmp_path, used_peak_bytes=1, with_fragments_peak_bytes=1, host_bytes=0)
        ]

    monkeypatch.setattr(planning, "run_plan", run)
    words = ["--from", str(TRACES / "llama_l2_none"), "--hardware", "ascend_910b2", "--effort", "0.2", "--confirm"]
    result = CliRunner().invoke(main, ["plan", str(config), "--budget", "330MB", *words, "--write"])
    assert result.exit_code == 0, result.output
    assert again(ran[0]), "the plan that is best has what fails"
    assert "MindSpore fails on recompute feed_forward" in result.stderr
    assert not again(ran[-1])
    assert config.read_text() == ran[-1]
