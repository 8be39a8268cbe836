"""The timelines of the page: all kernels are in its data, nothing in a name is markup, pages without them stay as they
are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.compare import folders
from swapconf.compare.traced import of_traces
from swapconf.compare.variant import Variant
from swapconf.timing import hardware
from swapconf.timing.cost import Host, Machine
from swapconf.timing.timeline_view import TimelineView
from swapconf.timing.timing import KINDS
from tests.helpers import TRACES
from tests.unit.stage_traces import write
from tests.unit.test_stages_on_one_clock import machine

pytest.importorskip("plotly")
pytest.importorskip("jinja2")

from swapconf.report.memory_page import page
from tests.unit.test_memory_page import HOSTILE, SCRIPT, Page

SWAP = TRACES / "llama_l2_layerswap_n1"


def variant(folder: Path) -> Variant:
    return of_traces(str(folder), folders.read(folder), machine())


def hostile(view: TimelineView) -> TimelineView:
    """The same kernels with names that try everything."""
    return replace(
        view,
        title=SCRIPT,
        origin=SCRIPT,
        notes=HOSTILE,
        ranks=tuple(
            replace(
                rank,
                names=tuple(
                    f"Default/{HOSTILE[index % len(HOSTILE)]}/{HOSTILE[-1 - index % len(HOSTILE)]}-op{index}"
                    for index in range(len(rank.names))
                ),
            )
            for rank in view.ranks
        ),
    )


def drawn(text: str) -> tuple[Page, list[dict[str, Any]]]:
    parsed = Page(text)
    return parsed, json.loads(parsed.scripts[1])


def test_every_kernel_that_takes_time_is_in_the_data() -> None:
    made = variant(SWAP)
    assert made.timeline is not None
    _, [figure] = drawn(page(made.views, "1", [made.timeline], [made]))
    [rank] = figure["ranks"]
    [shown] = made.timeline.ranks
    assert [len(lane["start"]) for lane in rank["lanes"]] == [len(lane.start_us) for lane in shown.lanes]
    assert {KINDS[lane["kind"]] for lane in rank["lanes"]} == set(KINDS)
    stalled = sum(end - start for start, end in zip(rank["stalls"]["start"], rank["stalls"]["end"], strict=True))
    exposed = sum(sum(lane["exposed"]) for lane in rank["lanes"])
    assert stalled == pytest.approx(exposed, abs=0.1)
    assert max(max(lane["end"]) for lane in rank["lanes"]) == pytest.approx(figure["longest"])
    assert any(scope["where"] == "backward pass of layer 1, feed_forward.w2" for scope in rank["scopes"])


def test_stages_share_a_figure_and_variants_their_scales(tmp_path: Path) -> None:
    made = [variant(write(tmp_path / "even")), variant(write(tmp_path / "odd", first_layer_side=2048))]
    views = [item.timeline for item in made if item.timeline is not None]
    parsed, figures = drawn(page([view for item in made for view in item.views], "1", views, made))
    assert [[rank["title"] for rank in figure["ranks"]] for figure in figures] == [
        ["stage 0 (rank 0)", "stage 1 (rank 4)"]
    ] * 2
    assert len({figure["longest"] for figure in figures}) == len({figure["top"] for figure in figures}) == 1
    assert figures[0]["longest"] == round(max(view.step_us for view in views), 3)
    assert [tag["id"] for tag in parsed.all("div") if tag.get("class") == "chart"][:2] == ["step-0", "step-1"]
    assert len(parsed.all("details")) == 3  # what holds the peak, and one for each stage
    texts = [text for _, text in parsed.texts]
    assert any("pipeline of 2 stages" in text for text in texts)


def test_names_are_text() -> None:
    made = variant(SWAP)
    assert made.timeline is not None
    parsed, [figure] = drawn(page(made.views, "1", [hostile(made.timeline)], [replace(made, title=SCRIPT)]))
    assert len(parsed.all("script")) == 5  # two blocks of data, plotly.js and the two of the page
    assert not parsed.all("img")
    told = [*figure["ranks"][0]["leaves"], *(scope["cells"] for scope in figure["ranks"][0]["scopes"])]
    assert all("<" not in text.replace("<br>", "") for text in told)
    assert SCRIPT in [text for tag, text in parsed.texts if tag in ("h2", "th")]


def test_a_page_of_memory_alone_has_no_timeline() -> None:
    parsed = Page(page(variant(SWAP).views, "1"))
    assert not [tag for tag in parsed.all("div") if str(tag.get("id")).startswith("step-")]
    assert len(parsed.all("script")) == 3


def test_both_commands_write_the_page(tmp_path: Path) -> None:
    for words in (["timeline", str(SWAP)], ["compare", str(SWAP), str(TRACES / "llama_l2_none")]):
        file = tmp_path / f"{words[0]}.html"
        result = CliRunner().invoke(main, [*words, "--html", str(file)])
        assert result.exit_code == 0, result.output
        assert f"Wrote {file}" in result.stderr
        _, figures = drawn(file.read_text(encoding="utf-8"))
        assert len(figures) == len(words) - 1


def test_times_follow_the_machine() -> None:
    def step(cards: int) -> float:
        on = Machine(hardware=hardware.load("ascend_910b2"), host=Host(cards=cards, bandwidth_gbps=40))
        found = of_traces("x", folders.read(SWAP), on).timeline
        assert found is not None
        return found.step_us

    assert step(8) > step(1)
