"""How the tokens of experts are spread in a dry run: evenly, by a factor or as a file says; and what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.cli.child_options import RunOptions
from swapconf.cli.plan_pynative import with_load
from swapconf.config.yaml_document import parse
from swapconf.dryrun import report_cache
from swapconf.dryrun.outcome import RankOutcome, RankReport, origin
from swapconf.dryrun.pynative.asked_load import load_of
from swapconf.dryrun.pynative.expert_load import EVEN, ExpertLoad, as_record, of_record, told, told_by
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.report_record import as_record as report_record
from swapconf.files.schemas import validator
from swapconf.plan import runs as dry_runs
from swapconf.study.study import Study, study_document
from swapconf.trace import run_record
from swapconf.trace.trace_folder import BLOCKS
from swapconf.upstream.facts import Versions
from swapconf.words.findings import SwapconfError
from tests.helpers import invoke

NEWER = Versions(mindspore="2.10.0", mindformers="2.1.0")
FOUR = "n_routed_experts: 4, num_experts_per_tok: 2"


def studied(model: str = FOUR, ranks: int = 2) -> Study:
    text = (
        f"training: {{global_batch_size: 2}}\nparallelism: {{data_parallel_shard: 2, expert_parallel: {ranks}}}\n"
        f"model: {{num_hidden_layers: 2, {model}}}\n"
    )
    return study_document(parse(text, "t.yaml"), NEWER, {})


def written(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


shares = st.lists(st.integers(0, 1000), min_size=8, max_size=8).filter(any)
loads = st.one_of(
    st.fractions(1, 4).map(ExpertLoad), shares.map(lambda found: ExpertLoad(shares=tuple(map(Fraction, found))))
)


@given(load=loads, routed=st.integers(0, 100_000), safe=st.integers(0, 8), ranks=st.sampled_from([1, 4, 8]))
def test_all_that_is_sent_goes_to_some_expert_and_safe_tokens_to_each(
    load: ExpertLoad, routed: int, safe: int, ranks: int
) -> None:
    found = load.tokens(routed + 8 * safe, 8, ranks, safe=safe)
    assert sum(found) == routed + 8 * safe
    assert min(found) >= safe
    for tokens, part in zip(found, load.of(8, ranks), strict=True):
        assert abs(tokens - safe - part * routed) < 1


@given(sent=st.integers(0, 100_000), experts=st.sampled_from([4, 8, 12]), unit=st.integers(1, 1000))
def test_an_even_load_and_a_factor_of_one_and_equal_shares_are_the_same(sent: int, experts: int, unit: int) -> None:
    found = [
        load.tokens(sent, experts, 4)
        for load in (EVEN, ExpertLoad(Fraction(1)), ExpertLoad(shares=(Fraction(unit),) * experts))
    ]
    assert found[0] == found[1] == found[2]
    assert max(found[0]) - min(found[0]) <= 1
    assert found[0] == sorted(found[0], reverse=True)  # what is left over goes to the first ones


def test_a_factor_is_what_the_first_rank_and_its_experts_get_and_the_others_share_the_rest() -> None:
    load = ExpertLoad(Fraction("1.5"))
    assert load.tokens(8000, 8, 4) == [1500, 1500, 834, 834, 833, 833, 833, 833]
    assert [round(load.times(8, 4, rank), 4) for rank in range(4)] == [1.5, 0.8333, 0.8333, 0.8333]
    assert load.times(8, 1, 0) == EVEN.times(8, 4, 3) == 1.0


def test_a_file_has_the_tokens_of_each_expert_as_yaml_json_or_csv(tmp_path: Path) -> None:
    texts = {
        "a.yaml": "0: 300\n1: 100\n3: 200\n2: 200\n",
        "a.json": '{"0": 300, "1": 100, "2": 200, "3": 200}',
        "a.csv": "expert,tokens\n0,300\n1,100\n2,200\n\n3,200\n",
        "b.csv": "0,0.375\n1,0.125\n2,0.25\n3,0.25,a comment\n",
    }
    for name, text in texts.items():
        load = load_of(written(tmp_path, name, text), studied())
        assert load.tokens(8000, 4, 2) == [3000, 1000, 2000, 2000]
        assert load.name.endswith(name)
        assert of_record(as_record(load)) == load


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("0,1\n1,1\n2,x\n3,1\n", 3, "'x' is no number of tokens"),
        ("0,1\n1,-1\n2,1\n3,1\n", 2, "'-1' is no number of tokens"),
        ("0,1\n1,nan\n2,1\n3,1\n", 2, "'nan' is no number of tokens"),
        ("0,1\n1,1\nlast,1\n3,1\n", 3, "'last' is no expert"),
        ("0,1\n1,1\n1,1\n3,1\n", 3, "expert 1 is there twice"),
        ("0,1\n1,1\n3,1\n", 0, "expert 2 is not there"),
        ("0,1\n1,1\n2,1\n", 0, "it has the tokens of 3 experts; the model has 4: name each of 0 to 3"),
        ("0,0\n1,0\n2,0\n3,0\n", 0, "no expert gets a token"),
        ("", 0, "no expert gets a token"),
        ("0,10\n1,1\n2,1\n3,1\n", 1, "expert 0 gets 76.9% of all that is sent; a token goes to 2 different experts"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_at_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(SwapconfError) as refused:
        load_of(written(tmp_path, "a.csv", text), studied())
    (found,) = refused.value.findings
    assert words in f"{found.message}; {found.hint}" or words in found.message
    assert (found.origin.line, found.rule) == (line, "expert-load")
    assert found.origin.file.endswith("a.csv")


@pytest.mark.parametrize(
    ("text", "words"), [("0: true\n1: 1\n2: 1\n3: 1\n", "'true' is no number"), ("- 1\n- 2\n", "not a mapping")]
)
def test_a_yaml_that_is_no_mapping_to_numbers_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SwapconfError, match=words):
        load_of(written(tmp_path, "a.yaml", text), studied())


@pytest.mark.parametrize(
    ("words", "model", "ranks", "message"),
    [
        ("0.5", FOUR, 2, "from 1, which is even, to 2, as a token goes to 2 of 4 experts on 2 ranks"),
        ("2.5", FOUR, 2, "to 2, as a token"),
        ("3", "n_routed_experts: 8, num_experts_per_tok: 4", 8, "to 2, as a token goes to 4 of 8 experts on 8 ranks"),
        ("skewed", FOUR, 2, "neither `even` nor a number from 1 on nor a file"),
        ("even", "hidden_size: 8", 1, "names no number of experts"),
    ],
)
def test_what_a_model_cannot_have_is_refused_and_the_most_is_told(
    words: str, model: str, ranks: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_of(words, studied(model, ranks))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SwapconfError, match="there is no such file"):
        load_of(str(tmp_path / "none.yaml"), studied())


def test_graph_mode_has_a_load_of_its_own() -> None:
    study = study_document(parse("model: {model_config: {num_layers: 2}}\n", "t.yaml"), Versions(), {})
    assert load_of(None, study) == EVEN
    with pytest.raises(ValueError, match="in graph mode mindformers itself takes all experts for equally busy"):
        load_of("even", study)


def test_each_figure_of_a_model_with_experts_says_which_load_it_is_of(tmp_path: Path) -> None:
    report = RankReport(file="t.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED, hyper_parallel="here")
    assert "expert" not in origin(report)
    assert "each rank has all experts" in origin(replace(report, expert_load="even"))
    shared = replace(report, expert_load="even", expert_ranks=4)
    assert "tokens spread evenly over the experts of 4 ranks" in origin(shared)
    skewed = replace(shared, expert_load="1.5", expert_times=1.5)
    words = "this one gets 1.5 times its even share of tokens (expert load 1.5)"
    assert words in origin(skewed)
    record = report_record(skewed)
    assert not list(validator("run_report").iter_errors(record))
    (tmp_path / run_record.FILE).write_text(json.dumps({"report": record}), encoding="utf-8")
    assert words in told_by(tmp_path)
    assert told_by(tmp_path / "none") == told("", 1, 1.0) == ""


def test_a_dry_run_of_another_load_is_another_run() -> None:
    order = RankOrder(document=studied().document, rank=0)
    paths = [report_cache._path(replace(order, load=load)) for load in (EVEN, ExpertLoad(Fraction(1)))]
    assert paths[0] == paths[1] == report_cache._path(order)
    assert report_cache._path(replace(order, load=ExpertLoad(Fraction(2)))) != paths[0]


def test_a_record_of_a_run_that_knew_no_load_is_an_even_one() -> None:
    assert of_record(None) == EVEN
    with pytest.raises(ValueError, match="no record"):
        of_record("even")


def kept_run(folder: Path, load: ExpertLoad) -> Path:
    place = folder / "rank_0"
    place.mkdir(parents=True)
    (place / BLOCKS).write_text("", encoding="utf-8")
    (place / run_record.FILE).write_text(json.dumps({"expert_load": as_record(load)}), encoding="utf-8")
    return folder


def run_options() -> RunOptions:
    return RunOptions(jobs=1, dask=None, keep=None, fold=False, timeout=1.0, no_cache=False, register_path=None)


def test_a_plan_is_for_the_load_that_is_asked_for_and_else_for_that_of_its_traces(tmp_path: Path) -> None:
    skewed = ExpertLoad(Fraction("1.5"))
    traces, study, runs = kept_run(tmp_path, skewed), studied(), run_options()
    assert with_load(runs, None, study, None).load is None
    assert with_load(runs, "1.5", study, None).load == skewed
    assert with_load(runs, None, study, traces).load == with_load(runs, "1.5", study, traces).load == skewed
    with pytest.raises(ValueError, match=r"--expert-load even: the trace in .*rank_0 is of expert load 1.5; make one"):
        with_load(runs, "even", study, traces)


def test_baselines_of_another_load_are_kept_elsewhere_and_their_orders_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    study, skewed = studied(), ExpertLoad(Fraction("1.5"))
    document = study.document
    assert dry_runs.place_of_baselines(document, None) == dry_runs.place_of_baselines(document, None, EVEN)
    assert dry_runs.place_of_baselines(document, None, skewed) != dry_runs.place_of_baselines(document, None)
    (order, *_) = dry_runs.orders(document, study, tmp_path, fold=False, timeout_seconds=1.0, load=skewed)
    assert order.load == skewed


def test_the_command_line_says_that_graph_mode_has_no_expert_load() -> None:
    done = invoke("dryrun", "configs/llama2_7b/example1_default_swap.yaml", "--expert-load", "2")
    assert done.exit_code == 2
    assert "--expert-load is of PyNative mode" in done.output
