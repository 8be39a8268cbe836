"""What `--fix` repairs, what it leaves alone, and that every other byte stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import Result

from swapconf.checking.fixes import Reading, meaning, repaired
from swapconf.checking.request import CheckRequest
from swapconf.study.settings import Settings
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT, invoke

ORDER = CheckRequest(file="a.yaml", named=True, settings=Settings(), versions=Versions(), environment={})
REST = """\
parallel_config: {pipeline_stage: 2}   # two
model:
  model_config: {type: LlamaConfig, num_layers: 4, use_flash_attention: True}
"""


def fixed(text: str) -> str:
    after, done = repaired(ORDER, text + REST)
    assert after.endswith(REST)
    assert bool(done) == (after != text + REST)
    return after.removesuffix(REST)


def block(*entries: str, recompute: str = "") -> str:
    return "swap_config:\n  swap: True\n  op_swap:\n" + "".join(entries) + recompute


KEPT = "    # kept\n    - op_name: attention   # all of it\n      backward_prefetch: 5\n      layers: [0]\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("attention.wq", r"attention\.wq"),
        ("'attention.wq'", r"'attention\.wq'"),
        ('"attention.wq"', r'"attention\\.wq"'),
        ("attention/wq", r"attention\.wq"),
        ("[attention, 'feed_forward.w1']", r"[attention, 'feed_forward\.w1']"),
    ],
)
def test_a_dot_is_escaped_in_the_quotes_that_it_has(written: str, meant: str) -> None:
    text = block(f"    - op_name: {written}   # why\n      backward_prefetch: 5\n      layers: [0]\n")
    assert fixed(text) == text.replace(written, meant)


def test_a_doubled_backslash_is_halved() -> None:
    text = block("    - op_name: 'attention\\\\.wq'   # why\n      backward_prefetch: 5\n      layers: [0]\n")
    assert fixed(text) == text.replace(r"\\", "\\")


@pytest.mark.parametrize("other", ["layers: [0, 9]", "layers: [2]\n      foo: 1"])
def test_a_dot_is_escaped_although_something_else_is_wrong_with_the_entry(other: str) -> None:
    recompute = "recompute_config: {recompute: [3]}\n"
    text = block(f"    - op_name: attention.wq\n      backward_prefetch: 5\n      {other}\n", recompute=recompute)
    assert fixed(text) == text.replace("attention.wq", r"attention\.wq")


def test_a_dot_is_escaped_where_recompute_then_takes_a_part_of_the_swap_as_in_the_mistakes_of_the_readme() -> None:
    text = block(
        "    - op_name: attention.wq\n      backward_prefetch: 5\n      layers: [0, 2]\n",
        recompute="recompute_config: {recompute: [2]}\n",
    )
    assert fixed(text) == text.replace("attention.wq", r"attention\.wq")
    shown = (ROOT / "docs/mistakes.yaml").read_text(encoding="utf-8")
    after, done = repaired(ORDER, shown)
    assert after == shown.replace("attention.flash_attention", r"attention\.flash_attention")
    assert [finding.rule for finding in done] == ["op-unescaped-dot"]


def test_many_repairs_cost_few_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty entries that an earlier one shadows go together; one that must stay costs a search by halves."""
    read: list[str] = []
    of = Reading.of

    def noted(order: CheckRequest, text: str) -> Reading:
        read.append(text)
        return of(order, text)

    monkeypatch.setattr(Reading, "of", noted)
    entry = "    - op_name: attention\n      backward_prefetch: {}\n      layers: [0]\n"
    assert fixed(block(KEPT, *(entry.format(number + 10) for number in range(60)))) == block(KEPT)
    assert len(read) <= 4
    read.clear()
    useless = "    - {{op_name: add, backward_prefetch: {}, layers: []}}\n"
    after = fixed(block(*(useless.format(number + 1) for number in range(32))))  # the last one stays
    assert after.count("op_name") == 1
    assert 4 < len(read) <= 20


def test_keys_of_recompute_are_repaired_too() -> None:
    text = "recompute_config:\n  select_recompute: {feed_forward.w1: [1, 1]}  # few\n"
    assert fixed(text) == text.replace("feed_forward.w1", r"feed_forward\.w1")


def test_an_unused_default_goes_with_its_line() -> None:
    unused = "  default_prefetch: 9   # not used\n"
    assert fixed(block(KEPT).replace("  op_swap", unused + "  op_swap")) == block(KEPT)
    flow = "swap_config: {swap: True, default_prefetch: 9, layer_swap: [{backward_prefetch: 1, layers: [0]}]}\n"
    assert fixed(flow) == flow.replace("default_prefetch: 9, ", "")


@pytest.mark.parametrize(
    "useless",
    [
        "    - op_name: feed_forward\n      backward_prefetch: 5\n      layers: []\n",
        "    - {op_name: feed_forward, backward_prefetch: 5, layers: False}   # nowhere\n",
        "    - op_name: [feed_forward, add]\n      layers:\n        []\n      backward_prefetch: 3\n",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_entry_without_effect_goes_and_its_neighbours_stay(useless: str, first: bool) -> None:
    assert fixed(block(*((useless, KEPT) if first else (KEPT, useless)))) == block(KEPT)


def test_entries_that_recompute_or_an_earlier_entry_voids_go() -> None:
    recompute = "recompute_config: {recompute: [2]}\n"
    void = "    - op_name: feed_forward\n      backward_prefetch: 5\n      layers: [2]\n"
    assert fixed(block(KEPT, void, recompute=recompute)) == block(KEPT, recompute=recompute)
    shadowed = "    - op_name: attention\n      backward_prefetch: 7\n      layers: [0]\n"
    assert fixed(block(KEPT, shadowed)) == block(KEPT)


@pytest.mark.parametrize("entries", ["[{E}, {F}]", "[{F}, {E}]", "[ {F} , {E} , ]"])
def test_entries_of_a_flow_list_go_with_their_comma(entries: str) -> None:
    kept = "{op_name: attention, backward_prefetch: 5, layers: [0]}"
    useless = "{op_name: add, backward_prefetch: 5, layers: []}"
    text = "swap_config: {swap: True, op_swap: " + entries.replace("{E}", useless).replace("{F}", kept) + "}\n"
    after = fixed(text)
    assert useless not in after
    assert kept in after


@pytest.mark.parametrize(("trap", "plain"), [("yes", "True"), ("off", "False"), ("007", "7")])
def test_traps_are_written_plainly(trap: str, plain: str) -> None:
    key = "swap" if plain in ("True", "False") else "default_prefetch"
    text = f"swap_config: {{{key}: {trap}}}\n"
    assert fixed(text) == text.replace(trap, plain)


@pytest.mark.parametrize(
    "text",
    [
        "swap_config: {swap: True, default_prefetch: 020}\n",  # 20 or 16?
        "swap_config: {swap: True, default_prefetch: 1:30}\n",  # surely not 90
        block("    - op_name: Attention\n      backward_prefetch: 5\n      layers: [0]\n"),  # which one was meant?
        block(KEPT.replace("[0]", "[0, 9]")),  # a typo, not a layer too many
        block("    - op_name: add\n      backward_prefetch: 5\n      layers: []\n"),  # the only entry: what then?
        block(KEPT, "    - op_name: attention\n      backward_prefetch: 7\n      layers: [0, 1]\n"),  # void in part
        block("    - op_name: &name attention.wq\n      backward_prefetch: 5\n      layers: [0]\n") + "other: *name\n",
        "swap_config: {swap: &on yes}\nother: *on\n",
    ],
)
def test_what_is_not_sure_is_left_alone(text: str) -> None:
    assert fixed(text) == text


def test_an_anchor_that_others_use_stays() -> None:
    shared = "    - op_name: add\n      backward_prefetch: 5\n      layers: &none []\n"
    text = block(KEPT, shared) + "recompute_config: {recompute: *none}\n"
    assert fixed(text) == text


def test_what_is_ignored_or_off_is_left_alone() -> None:
    text = block(KEPT).replace(
        "  op_swap", "  default_prefetch: 9 # swapconf: ignore[default-prefetch-ignored] later\n  op_swap"
    )
    assert fixed(text) == text


def test_the_meaning_is_the_same() -> None:
    text = block(KEPT, "    - {op_name: add, backward_prefetch: 5, layers: []}\n").replace("True", "yes") + REST
    after, done = repaired(ORDER, text)
    assert {finding.rule for finding in done} == {"yaml-trap", "swap-nothing"}
    assert meaning(Reading.of(ORDER, text).study) == meaning(Reading.of(ORDER, after).study)


# --- the command ------------------------------------------------------------------------------------------------------

BAD = "# häd\r\nswap_config: {swap: yes, default_prefetch: 10}\r\n" + REST.replace("\n", "\r\n")


def run(*words: str | Path, answer: str = "") -> Result:
    return invoke("check", *words, answer=answer)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + BAD.encode())
    return file


def test_diff_only_shows(bad: Path) -> None:
    before = bad.read_bytes()
    for words in (["--diff"], ["--fix", "--diff"], ["--fix", "--diff", "--yes"]):
        out = run(*words, bad).stdout
        assert "-swap_config: {swap: yes, default_prefetch: 10}" in out
        assert "+swap_config: {swap: True, default_prefetch: 10}" in out
        assert bad.read_bytes() == before


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_fix_asks(bad: Path, answer: str, written: bool) -> None:
    before = bad.read_bytes()
    out = run("--fix", bad, answer=answer).stdout
    assert "+swap_config: {swap: True" in out
    assert (bad.read_bytes() != before) == written


def test_fix_changes_those_bytes_only(bad: Path) -> None:
    link = bad.with_name("link.yaml")
    link.symlink_to(bad)
    bad.chmod(0o600)
    result = run("--fix", "--yes", link)
    assert bad.read_bytes() == b"\xef\xbb\xbf" + BAD.replace("yes", "True").encode()
    assert link.is_symlink()
    assert bad.stat().st_mode & 0o777 == 0o600
    assert "yaml-trap" not in result.stdout
    assert sorted(os.listdir(bad.parent)) == ["bad.yaml", "link.yaml"]


def test_with_a_format_for_machines_the_difference_goes_to_stderr(bad: Path) -> None:
    result = run("--diff", "--format", "json", bad)
    assert result.stdout.startswith("[")
    assert "+swap_config" in result.stderr


def test_fix_of_a_folder_leaves_other_yamls_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("on: yes\nmodel_config: yes\n")
    assert run("--fix", "--yes", tmp_path).exit_code == 0
    assert other.read_text() == "on: yes\nmodel_config: yes\n"
