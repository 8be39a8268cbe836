"""``swapconf compare`` as a user calls it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.compare.dry_runs import Candidate, _peak, dry_run
from swapconf.compare.variant import ComparedFigure
from swapconf.config.yaml_document import parse
from swapconf.dryrun import fan_out
from swapconf.dryrun.child import Ran, record
from swapconf.dryrun.outcome import LayerMoves, RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.memory.peak import as_record
from swapconf.timing import hardware
from swapconf.timing.cost import Host, Machine
from swapconf.upstream.facts import Versions
from tests.helpers import TRACES, golden, invoke
from tests.unit.stage_traces import write
from tests.unit.test_peak import LOSS

PLAIN, SWAP, AGAIN = (TRACES / name for name in ("llama_l2_none", "llama_l2_layerswap_n1", "llama_l2_recompute"))
EXAMPLE = TRACES / "llama.yaml"
YAML = "parallel_config: {pipeline_stage: 2, data_parallel: 2, model_parallel: 2}\n"


def run(*words: str | Path) -> Result:
    return invoke("compare", *words)


def records(*words: str | Path, code: int = 0) -> list[dict[str, Any]]:
    result = run(*words, "--format", "json")
    assert result.exit_code == code, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_what_holds_the_highest_peak_is_told_of_each(tmp_path: Path) -> None:
    plain, again = records(PLAIN, AGAIN)
    for found, folder in ((plain, PLAIN), (again, AGAIN)):
        (rank,) = found["ranks"]
        assert sum(part["bytes"] for part in rank["peak"]["at"]["parts"]) == golden(folder.name).used_peak_bytes
        assert rank["peak"]["advice"].endswith("at best to 136.4M")
    result = run(PLAIN, AGAIN, "--html", tmp_path / "page.html")
    assert (
        "rank 0, with the highest peak: swap and recompute of layers can lower the peak of 192.5M, at best to 136"
        in result.stdout
    )
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    table = text[text.index("What holds the highest peak") :]
    assert "activations of layers" in table[: table.index("</table>")]
    assert "65.1M" in table[: table.index("</table>")]


def test_figures_are_those_of_the_traces_and_differences_those_to_the_first() -> None:
    plain, swap, again = records(PLAIN, SWAP, AGAIN)
    for found, folder in ((plain, PLAIN), (swap, SWAP), (again, AGAIN)):
        trace = golden(folder.name)
        assert found["overall"]["figures"]["used_peak_bytes"] == trace.used_peak_bytes
        assert found["overall"]["figures"]["with_fragments_peak_bytes"] == trace.with_fragments_peak_bytes
        assert found["overall"]["figures"]["host_peak_bytes"] == trace.host_peak_bytes
        for key, value in found["overall"]["figures"].items():
            assert found["overall"]["change"][key] == value - plain["overall"]["figures"][key]
    assert swap["overall"]["figures"]["exposed_copies_us"] > 0 == plain["overall"]["figures"]["moved_bytes"]
    assert again["overall"]["figures"]["recomputed_operations"] > 1e10
    assert set(swap["origins"]) == {"memory", "time"}
    assert "estimated" in swap["origins"]["time"]


def test_one_trace_takes_what_timeline_says() -> None:
    alone = json.loads(CliRunner().invoke(main, ["timeline", str(SWAP), "--format", "json"]).stdout)
    [found] = records(SWAP)
    figures = found["overall"]["figures"]
    assert figures["step_us"] == pytest.approx(alone["step_us"])
    assert figures["exposed_copies_us"] == pytest.approx(alone["exposed_us"]["D2H"] + alone["exposed_us"]["H2D"])
    assert figures["bubble_us"] == 0


def test_stages_stand_side_by_side_overall_and_by_rank(tmp_path: Path) -> None:
    even, odd = write(tmp_path / "even"), write(tmp_path / "odd", first_layer_side=2048)
    first, second = records(even, odd)
    for found in (first, second):
        ranks = [rank["figures"] for rank in found["ranks"]]
        assert found["overall"]["figures"]["bubble_us"] == max(rank["bubble_us"] for rank in ranks)
        assert len({rank["step_us"] for rank in ranks}) == 1
    assert second["ranks"][1]["change"]["bubble_us"] > 0
    assert second["pipeline"]["imbalance"] > first["pipeline"]["imbalance"]
    text = run(even, odd).stdout
    for words in (
        "rank 0 (stage 0)",
        "rank 4 (stage 1)",
        "pipeline of 2 stages, 3 micro-batches",
        "step time",
        "dry run level 1 (operator workspace excluded)",
        "estimated 100%",
    ):
        assert words in text


def test_a_missing_stage_is_named(tmp_path: Path) -> None:
    job = write(tmp_path / "job")
    shutil.rmtree(job / "rank_4")
    [found] = records(job)
    assert "no traces of the ranks 4" in found["notes"][0]
    assert found["pipeline"] is None


def test_one_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    damaged = tmp_path / "damaged"
    shutil.copytree(PLAIN, damaged)
    (damaged / "execute_order.csv").write_text("index\n", encoding="utf-8")
    found = records(tmp_path / "empty", PLAIN, damaged, tmp_path / "no.yaml", code=2)
    assert [bool(item["failure"]) for item in found] == [True, False, True, True]
    assert {finding["rule"] for item in found for finding in item["findings"]} == {"file-not-found", "trace-header"}


def test_without_the_graph_memory_is_compared_and_time_has_a_reason(tmp_path: Path) -> None:
    shutil.copytree(PLAIN, tmp_path / "o1", ignore=shutil.ignore_patterns("*.ir"))
    [found] = records(tmp_path / "o1")
    assert found["overall"]["figures"]["used_peak_bytes"] == golden(PLAIN.name).used_peak_bytes
    assert found["overall"]["figures"]["step_us"] is None
    assert "memory_optimize_level O1" in found["unknown"]["step_us"]
    assert "memory_optimize_level O1" in run(tmp_path / "o1").stdout


def test_a_rank_that_does_not_fit_ends_with_1(tmp_path: Path) -> None:
    job = write(tmp_path / "job")
    record = json.loads((job / "rank_4/run.json").read_text())
    record["report"]["outcome"] = "does not fit the device memory"
    (job / "rank_4/run.json").write_text(json.dumps(record))
    [found] = records(job, code=1)
    assert found["notes"] == ["rank 4: does not fit the device memory"]


@pytest.mark.parametrize(
    "words", [(), ("--hardware", "nothing"), (str(PLAIN),), ("--cards-per-host", "0"), ("--dask", "tcp://localhost:1")]
)
def test_a_wrong_command_line_ends_with_2(words: tuple[str, ...]) -> None:
    assert run(*([PLAIN] if words else []), *words).exit_code == 2


def test_what_a_kept_report_says_of_its_peak_is_taken_as_far_as_it_is_whole() -> None:
    assert _peak({"peak": as_record(LOSS)}) == LOSS
    for found in ({}, {"peak": None}, {"peak": {"at": 3}}, {"peak": {**as_record(LOSS), "rest": {"when": "noon"}}}):
        assert _peak(found) is None


def test_a_yaml_is_predicted_from_a_baseline() -> None:
    words = (
        "--set",
        "model.model_config.num_layers=2",
        "--set",
        'swap_config={"swap": true, "layer_swap": [{"backward_prefetch": 1, "layers": true}]}',
    )
    baseline, found = records(EXAMPLE, "--from", PLAIN, *words)
    alone = json.loads(
        CliRunner()
        .invoke(
            main, ["whatif", str(PLAIN), "--config", str(EXAMPLE), "--format", "json", "--hardware", "generic", *words]
        )
        .stdout
    )
    figures = found["overall"]["figures"]
    assert baseline["title"] == str(PLAIN)
    assert figures["used_peak_bytes"] == alone["used_peak_bytes"] < baseline["overall"]["figures"]["used_peak_bytes"]
    assert figures["moved_bytes"] == alone["moved_bytes_per_step"]
    assert baseline["overall"]["figures"]["recomputed_kernels"] == figures["recomputed_kernels"] == 0
    assert figures["step_us"] == pytest.approx(alone["time"]["predicted"]["step_us"]["value"])
    assert figures["exposed_copies_us"] == pytest.approx(alone["time"]["predicted"]["exposed_copy_us"]["value"])
    assert figures["step_us"] > baseline["overall"]["figures"]["step_us"]
    assert found["origins"]["memory"] == alone["origin"]
    assert found["origins"]["time"].startswith("predicted, on generic")


# --- YAMLs that are run ----------------------------------------------------------------------------------------------


def machine() -> Machine:
    return Machine(hardware=hardware.load("generic"), host=Host())


def candidate(keep: Path, name: str, **settings: Any) -> Candidate:
    document = parse(YAML, f"{name}.yaml")
    return Candidate(
        title=f"{name}.yaml",
        keep=keep / name,
        orders=tuple(RankOrder(document=document, rank=rank, keep=keep / name, **settings) for rank in (0, 4)),
    )


def report(order: RankOrder, **changes: Any) -> RankReport:
    return RankReport(
        file=order.document.file,
        rank=order.rank,
        stage=order.rank // 4,
        level=1,
        **{
            "outcome": RankOutcome.COMPLETED,
            "used_peak_bytes": 100,
            "with_fragments_peak_bytes": 120,
            "host_bytes": 8,
            "moved": (LayerMoves("0", 1, 64),),
            **changes,
        },
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Dry runs that leave the traces of `stage_traces`, but `broken.yaml` dies and `folded.yaml` is folded; by rank and
    file what was run."""
    made: list[str] = []

    def dry_run_each(
        orders: Sequence[RankOrder], jobs: int, dask: str | None = None
    ) -> Iterator[tuple[int, RankReport]]:
        for place, order in enumerate(orders):
            made.append(f"{order.document.file} {order.rank}")
            assert order.keep is not None
            if order.document.file == "broken.yaml":
                yield place, report(order, outcome=RankOutcome.CRASHED, detail="core dumped", used_peak_bytes=None)
            elif order.document.file == "folded.yaml":
                yield place, report(order, folded=(4, 6), fold_note="extrapolated")
            else:
                if not order.keep.exists():
                    write(order.keep)
                yield place, report(order)

    monkeypatch.setattr(fan_out, "dry_run_each", dry_run_each)
    return made


def test_every_yaml_is_run_and_a_crash_is_its_own(tmp_path: Path, asked: list[str]) -> None:
    good, broken = dry_run([candidate(tmp_path, "good"), candidate(tmp_path, "broken")], 1, machine())
    assert asked == ["good.yaml 0", "good.yaml 4", "broken.yaml 0", "broken.yaml 4"]
    assert good.overall(ComparedFigure.STEP) == pytest.approx(288.7078, rel=1e-4)
    assert good.pipeline is not None
    assert broken.failure.startswith("rank 0 crashed inside MindSpore: core dumped; rank 4")


def test_a_folded_run_has_memory_and_says_why_it_has_no_time(tmp_path: Path, asked: list[str]) -> None:
    [folded] = dry_run([candidate(tmp_path, "folded")], 1, machine())
    assert [
        folded.overall(figure) for figure in (ComparedFigure.USED_PEAK, ComparedFigure.MOVED, ComparedFigure.STEP)
    ] == [100, 128, None]
    assert "--no-fold" in folded.unknown[ComparedFigure.STEP]
    assert folded.origins["memory"].endswith("extrapolated")


def keep_records(same: Candidate, **told: Any) -> None:
    """Runs of a candidate that are kept, with the records that a dry run writes."""
    dry_run([same], 1, machine())
    versions = Versions.in_use()
    for order in same.orders:
        file = same.keep / f"rank_{order.rank}/run.json"
        done = replace(report(order), used_peak_bytes=1, **told)
        file.parent.mkdir(parents=True, exist_ok=True)
        record(
            order,
            Ran(report=done, environment={"mindspore": versions.mindspore, "mindformers": versions.mindformers}),
            done,
        )
        assert file.exists()


def test_a_kept_run_is_used_again_only_where_it_is_the_same(tmp_path: Path, asked: list[str]) -> None:
    same = candidate(tmp_path, "good")
    keep_records(same)
    asked.clear()
    [again] = dry_run([same], 1, machine(), reuse=True)
    assert asked == []
    assert again.overall(ComparedFigure.STEP) == pytest.approx(288.7078, rel=1e-4)
    for other in ("plain", "as_parallel", "launch_blocking"):
        dry_run([candidate(tmp_path, "good", **{other: True})], 1, machine(), reuse=True)
    dry_run([same], 1, machine())
    assert len(asked) == 8


@pytest.mark.parametrize(
    ("outcome", "runs"), [(RankOutcome.DOES_NOT_FIT, 0), (RankOutcome.CRASHED, 2), (RankOutcome.TIMED_OUT, 2)]
)
def test_a_kept_run_that_does_not_fit_has_run_its_step(
    tmp_path: Path, asked: list[str], outcome: RankOutcome, runs: int
) -> None:
    same = candidate(tmp_path, "good")
    keep_records(same, outcome=outcome)
    asked.clear()
    dry_run([same], 1, machine(), reuse=True)
    assert len(asked) == runs


def test_a_kept_folded_run_is_used_again_unless_the_whole_model_is_asked_for(tmp_path: Path, asked: list[str]) -> None:
    same = candidate(tmp_path, "folded", fold=True)
    keep_records(same, folded=(4, 6), fold_note="extrapolated")
    asked.clear()
    [again] = dry_run([same], 1, machine(), reuse=True)
    assert asked == []
    assert again.overall(ComparedFigure.USED_PEAK) == 1
    whole = replace(same, orders=tuple(replace(order, fold=False) for order in same.orders))
    dry_run([whole], 1, machine(), reuse=True)
    assert len(asked) == 2


def test_a_kept_folded_run_whose_grown_trace_is_gone_is_run_again(tmp_path: Path, asked: list[str]) -> None:
    same = candidate(tmp_path, "folded", fold=True)
    keep_records(same, folded=(4, 6), grown="grown from dry runs of 4 and 6 layers")
    asked.clear()
    dry_run([same], 1, machine(), reuse=True)
    assert len(asked) == 2


def test_a_kept_run_is_not_used_again_once_the_code_beside_it_changed(tmp_path: Path, asked: list[str]) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "model.py").write_text("WIDTH = 1")
    same = candidate(tmp_path, "good", register_path=str(code))
    keep_records(same)
    asked.clear()
    dry_run([same], 1, machine(), reuse=True)
    assert asked == []
    dry_run([candidate(tmp_path, "good")], 1, machine(), reuse=True)
    assert len(asked) == 2  # without the code it is another run
    asked.clear()
    (code / "model.py").write_text("WIDTH = 2")
    dry_run([same], 1, machine(), reuse=True)
    assert len(asked) == 2


def test_a_kept_run_is_not_used_again_once_the_config_of_its_model_changed(tmp_path: Path, asked: list[str]) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"num_hidden_layers": 2}')
    document = parse(f"{YAML}\npretrained_model_dir: {model}\n", "good.yaml")
    same = replace(
        blank := candidate(tmp_path, "good"), orders=tuple(replace(order, document=document) for order in blank.orders)
    )
    keep_records(same)
    asked.clear()
    dry_run([same], 1, machine(), reuse=True)
    assert asked == []
    (model / "config.json").write_text('{"num_hidden_layers": 4}')
    dry_run([same], 1, machine(), reuse=True)
    assert len(asked) == 2
