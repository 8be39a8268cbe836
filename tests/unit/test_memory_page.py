"""The page of ``swapconf memory --html``: whole by itself, and nothing in a name is ever markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from swapconf.memory.allocators import mindspore
from swapconf.memory.memory_view import MemoryView
from swapconf.memory.view import of_trace, view
from swapconf.report.memory_figures import plotly_text
from swapconf.trace.lifetimes import Lifetimes
from swapconf.words import phrases
from swapconf.words.units import show_bytes
from tests.helpers import columns, golden

pytest.importorskip("plotly")
pytest.importorskip("jinja2")

from swapconf.report.memory_page import page

NAME = "llama_l3_ffnnorm_swap_ffn_recompute"
SCRIPT = "<script>alert(1)</script>"
LINK = '<a href="javascript:alert(1)">x</a>'
MIXED = "\u2028'\"&amp;<b>%{x}$\\alpha$"
HOSTILE = (
    SCRIPT,
    LINK,
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(3)>",
    MIXED,
    "</title></style><b id=injected>",
)


def hostile(live: Lifetimes) -> Lifetimes:
    """The same blocks, with names that try everything."""
    names = [f"Default/{HOSTILE[index % len(HOSTILE)]}/Add-op{index}" for index in range(len(live.names))]
    return replace(live, names=tuple(names))


def hostile_view() -> MemoryView:
    live = hostile(columns(NAME))
    placement = mindspore.place(live)
    return view(
        live,
        placement,
        title=SCRIPT,
        rank=0,
        origin=LINK,
        notes=HOSTILE,
        with_fragments_peak_bytes=placement.mapped_bytes,
        reserved_bytes=placement.reserved_bytes,
    )


class Page(HTMLParser):
    """What a browser would see: tags with attributes, and texts by the tag around them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def figures(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.scripts[0])
        return found

    @property
    def scripts(self) -> list[str]:
        return [text for tag, text in self.texts if tag == "script" and text.strip()]


@pytest.fixture(scope="module")
def plain() -> Page:
    return Page(page([of_trace(golden(NAME), "a trace", "measured")], "1.2"))


@pytest.fixture(scope="module")
def attacked() -> Page:
    return Page(page([hostile_view()], "1.2"))


def test_nothing_is_loaded(plain: Page) -> None:
    loading = [attributes for _, attributes in plain.tags if {"src", "srcset", "action", "data"} & set(attributes)]
    assert loading == []
    assert [link["href"] for link in plain.all("link")] == ["data:,"]
    assert plain.all("a") == plain.all("iframe") == plain.all("object") == plain.all("form") == []
    styles = "".join(text for tag, text in plain.texts if tag == "style")
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_policy_names_both_scripts_and_allows_no_connection(plain: Page) -> None:
    (policy,) = [meta["content"] for meta in plain.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    allowed = rules["script-src"].split()
    data, *scripts = plain.scripts
    json.loads(data)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert allowed == [f"'sha256-{value}'" for value in hashes]
    assert not re.search(r"unsafe-(inline|eval)", rules["script-src"])


def test_the_charts_show_the_figures_of_the_view(plain: Page) -> None:
    found = of_trace(golden(NAME), "a trace", "measured")
    timeline, blocks = plain.figures
    (total,) = [trace for trace in timeline["data"] if trace["name"] == "in use"]
    assert max(total["y"]) == pytest.approx(found.used_peak_bytes / 2**20, abs=1e-5)
    assert total["x"][total["y"].index(max(total["y"]))] == found.peak_time
    assert timeline["layout"]["annotations"][0]["text"] == f"peak {show_bytes(found.used_peak_bytes)}"
    assert sum(len(trace["x"]) for trace in blocks["data"]) == len(found.blocks)
    tops = [base + size for trace in blocks["data"] for base, size in zip(trace["base"], trace["y"], strict=True)]
    assert max(tops) == pytest.approx(found.with_fragments_peak_bytes / 2**20, abs=1e-5)
    assert {trace["name"] for trace in blocks["data"]} >= {"swap buffers", "recomputed", "weights"}


def test_the_page_is_in_the_language_in_use(plain: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plain.all("html") == [{"lang": "en"}]
    assert plain.all("body") == [{}]
    monkeypatch.setattr(phrases, "_shown_in", "zh")
    chinese = Page(page([hostile_view()], "1.2"))
    assert chinese.all("html") == [{"lang": "zh"}]
    assert set(json.loads(chinese.all("body")[0]["data-plotly"] or "")) >= {"Zoom", "Pan", "Reset axes"}
    assert "峰值" in chinese.figures[0]["layout"]["annotations"][0]["text"]
    assert [text for tag, text in chinese.texts if tag == "h1"] != [text for tag, text in plain.texts if tag == "h1"]
    assert len(chinese.all("script")) == 3
    assert [attributes for _, attributes in chinese.tags if attributes.get("id") == "injected"] == []


def test_what_is_not_drawn_is_said() -> None:
    found = of_trace(golden(NAME), "t", "o")
    assert f"All {len(found.blocks)} blocks are drawn." in page([found], "1")
    fewer = replace(
        found, blocks=replace(found.blocks, num_blocks=10**6, drawn_share=0.99999, largest_left_out_bytes=2048)
    )
    words = " ".join(page([fewer], "1").split())
    assert f"{len(found.blocks)} of 1000000 blocks are drawn, which hold 99.99% of all bytes times life" in words
    assert "none is larger than 2.0K" in words


def test_several_traces_are_compared_on_equal_scales() -> None:
    views = [of_trace(golden(name), name, "measured") for name in ("llama_l2_none", "llama_l2_recompute")]
    found = Page(page(views, "1"))
    assert [figure["place"] for figure in found.figures] == ["timeline-0", "blocks-0", "timeline-1", "blocks-1"]
    assert len({tuple(figure["layout"]["yaxis"]["range"]) for figure in found.figures}) == 1
    assert [table.get("id") for table in found.all("table")].count("comparison") == 1
    difference = views[0].used_peak_bytes - views[1].used_peak_bytes
    assert difference > 0
    assert f"−{show_bytes(difference)}" in [text.strip() for _, text in found.texts]


def test_names_are_never_markup(plain: Page, attacked: Page) -> None:
    assert len(attacked.all("script")) == len(plain.all("script")) == 3
    for tag in ("a", "img", "b"):
        assert attacked.all(tag) == []
    assert [attributes for _, attributes in attacked.tags if attributes.get("id") == "injected"] == []
    headings = [text for tag, text in attacked.texts if tag == "h2"]
    assert SCRIPT in headings[0]
    assert any(SCRIPT in text for tag, text in attacked.texts if tag == "title")


def test_the_data_cannot_leave_its_block(attacked: Page) -> None:
    data = attacked.scripts[0]
    assert not set("<>&'\u2028") & set(data)
    shown = {html.unescape(name.replace("<br>", "")) for name in attacked.figures[1]["names"]}
    assert any(SCRIPT in name for name in shown)


def test_texts_for_plotly_hold_no_tag_but_line_breaks(attacked: Page) -> None:
    for name in attacked.figures[1]["names"]:
        assert not re.search(r"[<>]", name.replace("<br>", ""))


def test_a_long_name_is_folded_and_nothing_of_it_lost() -> None:
    name = "Default/" + "network-SomeVeryLongCellName/" * 20 + "x" * 200
    folded = plotly_text(name)
    assert folded.replace("<br>", "") == name
    assert max(map(len, folded.split("<br>"))) < 100
    assert plotly_text("<br>") == "&lt;br&gt;"


def test_a_trace_without_any_memory_has_a_page() -> None:
    from tests.unit.test_memory_view import view_of
    from tests.unit.test_policies import blocks

    assert len(Page(page([view_of(blocks())], "1")).figures) == 2
