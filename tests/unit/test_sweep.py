"""Which prefetch of a sweep is best, and how a sweep is drawn and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.report.sweep_chart import chart, choices
from swapconf.report.sweep_figure import sweep_figure
from swapconf.whatif.sweep import LayerCopies, Point, PointTime, best_of_layers, best_overall
from tests.helpers import ROOT

CONFIG = str(ROOT / "tests" / "traces" / "llama.yaml")
TRACE = str(ROOT / "tests" / "traces" / "llama_l2_none")
LAYER_SWAP = "swap_config={swap: True, layer_swap: [{backward_prefetch: 1, layers: True}]}"


def point(
    prefetch: int, step_us: float, peak_bytes: int = 10, crashes: bool = False, layers: tuple[LayerCopies, ...] = ()
) -> Point:
    return Point(
        prefetch=prefetch,
        peak_bytes=peak_bytes,
        twice_bytes=sum(layer.twice_bytes for layer in layers),
        crashes=crashes,
        time=PointTime(step_us=step_us, exposed_copy_us=1.0, layers=layers),
    )


def copies(late_us: float, twice_bytes: int, layer: str = "0") -> tuple[LayerCopies, ...]:
    return (LayerCopies(layer=layer, late_us=late_us, twice_bytes=twice_bytes),)


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([point(1, 2000), point(2, 1000), point(3, 1500)], 2),
        ([point(1, 1000.9, 20), point(2, 1000, 10)], 2),
        ([point(1, 1000.9, 10), point(2, 1000, 20)], 1),  # 0.1 % of time is noise, so that the peak decides
        ([point(1, 1001.1, 10), point(2, 1000, 20)], 2),
        ([point(5, 1000), point(3, 1000)], 3),
        ([point(1, 900, crashes=True), point(2, 1000)], 2),
    ],
)
def test_the_best_takes_least_time_then_least_memory_then_is_smallest(points: list[Point], best: int) -> None:
    found = best_overall(points)
    assert found is not None
    assert found.prefetch == best


def test_nothing_is_best_where_all_crash_or_nothing_is_timed() -> None:
    assert best_overall([point(1, 900, crashes=True)]) is None
    assert best_overall([Point(prefetch=1, peak_bytes=1, twice_bytes=0)]) is None
    assert choices([Point(prefetch=1, peak_bytes=1, twice_bytes=0)]) == []
    assert "crash" in choices([point(1, 900, crashes=True)])[0]


def test_the_best_of_a_layer_waits_for_nothing_and_holds_nothing_twice() -> None:
    [found] = best_of_layers(
        [
            point(9, 1, layers=copies(0.0, 0)),
            point(4, 1, layers=copies(0.0, 0)),
            point(3, 1, layers=copies(0.5, 0)),
            point(2, 1, crashes=True, layers=copies(0.0, 0)),
        ]
    )
    assert (found.layer, found.best) == ("0", 4)


def test_where_no_prefetch_is_best_what_it_trades_is_told() -> None:
    points = [
        point(1, 1, layers=copies(9.0, 0)),
        point(2, 1, layers=copies(7.0, 0)),
        point(3, 1, layers=copies(8.0, 4)),
        point(4, 1, layers=copies(0.0, 2048)),
        point(5, 1, layers=copies(0.0, 4096)),
    ]
    [found] = best_of_layers(points)
    assert found.best is None
    assert found.punctual == (4, 2048)
    assert found.single == (2, 7.0)
    assert choices(points)[1] == (
        "layer 0: none; at 2 nothing is held twice, and 7.0 us are waited for; at 4 nothing "
        "is waited for, and 2.0K are held twice"
    )


def test_the_chart_has_two_panels_over_one_axis() -> None:
    lines = chart([point(1, 3000, 10), point(2, 1000, 20, layers=copies(0, 5)), point(3, 2000, 30, crashes=True)])
    assert [line.strip() for line in lines if "|" not in line][:4] == ["ms a step", "+---", "used peak", "+-!x"]
    steps, peaks = lines[1], lines[13]
    assert steps.endswith("|█")
    assert peaks.endswith("|  █")


def test_the_figure_marks_crashes_and_two_copies() -> None:
    found = sweep_figure(
        [point(1, 3), point(2, 2, layers=copies(0, 5)), point(3, 2, layers=copies(0, 5)), point(4, 2, crashes=True)],
        "sweep",
    )
    bands = [(shape["x0"], shape["x1"]) for shape in found["layout"]["shapes"] if shape["type"] == "rect"]
    assert bands == [(3.5, 4.5), (1.5, 3.5)]
    assert [trace["yaxis"] for trace in found["data"]] == ["y", "y2", "y2"]
    untimed = sweep_figure([Point(prefetch=1, peak_bytes=1, twice_bytes=0)], "sweep")
    assert [trace["yaxis"] for trace in untimed["data"]] == ["y"]


def ask(*words: str) -> Result:
    return CliRunner().invoke(
        main,
        ["whatif", TRACE, "--config", CONFIG, "--set", "model.model_config.num_layers=2", "--set", LAYER_SWAP, *words],
    )


def test_the_command_tells_times_of_every_prefetch_and_the_best() -> None:
    run = ask("--hardware", "ascend_910b2", "--sweep", "backward_prefetch=1..40", "--format", "json")
    assert run.exit_code == 0, run.output
    record = json.loads(run.stdout)
    steps = {entry["backward_prefetch"]: entry for entry in record["sweep"]}
    assert steps[1]["step_us"] == record["time"]["predicted"]["step_us"]["value"]
    assert all(entry["exposed_copy_us"] <= entry["step_us"] for entry in steps.values())
    least = min(entry["step_us"] for entry in steps.values())
    assert steps[record["best"]["backward_prefetch"]]["step_us"] <= least * 1.001
    assert list(record["best"]["layers"]) == ["0", "1"]
    assert record["time"]["baseline"]["exposed_copy_us"]["value"] == 0
    assert record["time"]["predicted"]["step_us"]["share"] == {"estimated": 1.0}


def test_the_command_prints_the_step_beside_that_without_swap() -> None:
    run = ask("--hardware", "ascend_910b2")
    assert run.exit_code == 0, run.output
    assert "one step on Ascend 910B2" in run.output
    assert "estimated 100%" in run.output
    assert "GFLOP" in run.output
    slower = ask("--hardware", "ascend_910b2", "--cards-per-host", "8", "--host-bandwidth", "40", "--format", "json")
    assert json.loads(slower.stdout)["time"]["host_link_gbps"] == 5


def test_without_a_card_there_are_no_times_and_no_options_for_them() -> None:
    record = json.loads(ask("--sweep", "backward_prefetch=1..3", "--format", "json").stdout)
    assert record["time"] == record["best"] == {}
    assert record["sweep"][0].keys() == {"backward_prefetch", "used_peak_bytes", "two_copies_bytes", "crashes"}
    run = ask("--cards-per-host", "8")
    assert run.exit_code == 2
    assert "need --hardware" in run.output


def test_the_page_draws_the_sweep(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert ask("--hardware", "generic", "--sweep", "backward_prefetch=1..5", "--html", str(file)).exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert 'id="sweep"' in text
    assert "best overall: backward_prefetch" in text
