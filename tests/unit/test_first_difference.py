"""scripts/evidence/first_difference.py: where a predicted order parts from that of a run, and what is read there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers import TRACES, packed

FOLDER = TRACES / "in_order" / "llama_sends_awaited"
WITHOUT = "swap_config.swap=False"


@pytest.fixture(scope="module")
def baseline() -> Path:
    return Path(packed(FOLDER).folder)


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str]:
    import first_difference

    monkeypatch.setattr(sys, "argv", ["first_difference.py", *line])
    code = first_difference.main()
    found = capsys.readouterr()
    return code, found.out + found.err


def test_a_run_parts_nowhere_from_what_is_predicted_for_its_own_yaml(
    baseline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (str(baseline), str(FOLDER / "model.yaml"), str(baseline))
    assert told(monkeypatch, capsys, *line, "--set", WITHOUT) == (
        0,
        "both orders are one: 792 launches, but for views\n",
    )


def test_with_fused_kernels_both_orders_are_of_the_operators(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = TRACES / "fused_in_order" / "llama"
    run = packed(folder).folder
    code, found = told(monkeypatch, capsys, run, str(folder / "model.yaml"), run, "--set", WITHOUT)
    assert code == 0, found
    assert "both orders are one: " in found


def test_where_a_run_without_a_strategy_parts_from_a_predicted_one_is_told_with_what_is_read_on_both_sides(
    baseline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without recompute the calls of layers copy a constant first, which recompute of whole layers has elsewhere."""
    line = (str(baseline), str(FOLDER / "model.yaml"), str(baseline), "--set", WITHOUT)
    code, found = told(monkeypatch, capsys, *line, "--set", "recompute_config.recompute=True")
    assert code == 1
    mine, its = found.split("\npredicted:\n")[1].split("\ntrue:\n")
    first = f"  {found.partition('at launch ')[2].partition(',')[0]}  "
    norm = "~/layers-CellList/0-LLamaDecodeLayer/attention_norm-LlamaRMSNorm/RmsNorm-op0"
    assert mine.startswith(f"{first}Default/{norm}\n")
    assert "    [0] Default/Cast-op0 (launch 18)\n" in mine
    assert its.startswith(f"{first}Default/TensorMove-op0\n")
    assert "on the other side: launch " in its


def test_without_its_graph_a_run_tells_what_it_read_by_its_order_of_execution(baseline: Path) -> None:
    import first_difference

    from swapconf.trace import trace_folder

    trace = trace_folder.read(baseline, rank=0)
    plain, graphed = first_difference.of_run(trace), first_difference.of_run(trace, trace.launch_graph)
    assert [launch.name for launch in plain] == [launch.name for launch in graphed]
    assert first_difference.difference(graphed, plain) is None
    relu = next(place for place, launch in enumerate(plain) if launch.primitive == "ReLU")
    assert plain[relu].reads() == graphed[relu].reads() == [f"{plain[relu - 3].name} (launch {relu - 3})"]
    view = next(launch for launch in plain if launch.primitive == "MatMul").reads()[0]
    assert view.endswith(" (a view)")
    with pytest.raises(ValueError, match="the graph is of another run"):
        first_difference.of_run(trace_folder.read(TRACES / "llama_l2_none", rank=0), trace.launch_graph)


def test_a_launch_more_is_where_orders_part_and_so_is_another_cell() -> None:
    import first_difference as found

    def launches(*names: str) -> list[found.Launch]:
        return [found.Launch(primitive=name[-1], name=name, reads=list) for name in names]

    assert found.difference(launches("a/M", "b/N"), launches("a/M", "b/N", "c/O")) == found.Difference(2, None)
    assert found.difference(launches("a/M", "b/M"), launches("a/M", "recompute_b/M")) is None
    assert found.difference(launches("a/M", "b/M", "c/N"), launches("a/M", "c/M", "c/O")) == found.Difference(2, 1)
    assert found.difference(launches("a/M", "b/M"), launches("b/M", "a/M")) == found.Difference(None, 0)
    lines = list(found.told(launches("x/a/M", "x/b/M"), launches("x/b/M", "x/a/M")))
    assert "the same primitives are launched in one order, 2 of them, but for views" in lines


def test_what_runs_on_one_side_alone_is_counted_by_primitive_and_by_cell() -> None:
    import first_difference as found

    def launches(*names: str) -> list[found.Launch]:
        return [found.Launch(primitive=name[-1], name=name.rpartition(":")[0], reads=list) for name in names]

    mine, true = launches("x/a/M:M", "x/b/M:M", ":C", ":C"), launches("x/a/M:M", "x/c/N:N", "x/a/C:C")
    lines = list(found.told(mine, true))
    place = lines.index("the orders part at launch 1, of 4 that are predicted and 3 that ran")
    assert lines[place + 1 : place + 6] == [
        "C: 2 predicted, 1 ran",
        "M: 2 predicted, 1 ran",
        "  1 and 0: x/b/M",
        "N: 0 predicted, 1 ran",
        "  0 and 1: x/c/N",
    ]


def test_a_baseline_without_its_graph_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(TRACES / "llama_l2_none")
    yaml = (str(TRACES / "llama.yaml"), folder, "--set", "model.model_config.num_layers=2")
    code, found = told(monkeypatch, capsys, folder, *yaml)
    assert code == 2
    assert "no graph was kept with this trace" in found
