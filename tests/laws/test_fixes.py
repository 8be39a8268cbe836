"""A repair keeps the decided strategy, or its finding is gone and no other came; everything else keeps its bytes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.checking.fixes import Reading, meaning, repaired
from swapconf.checking.request import CheckRequest
from swapconf.config.config import Config
from swapconf.config.yaml_comments import comments
from swapconf.config.yaml_text import format_config
from swapconf.study.settings import Settings
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from tests.laws.strategies import configs

ORDER = CheckRequest(file="law.yaml", named=True, settings=Settings(), versions=Versions(), environment={})
MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 4}}  # the model\n"
NAMES = st.sampled_from(
    [
        r"attention",
        r"attention\.wq",
        "attention.wq",
        "feed_forward.w1",
        "feed_forward/w2",
        r"feed_forward\.mul",
        "ffn_norm",
        r".*\.norm",
        "(attention|feed_forward)",
        "feed_forward.nothing",
        "Attention",
        "w.",
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A config as text, with comments, a default that may be unused, and another writing of True."""
    config: Config = draw(configs(names=NAMES))
    lines = format_config(config).splitlines()
    if draw(st.booleans()):
        lines = [f"{line}   # note {number}" if draw(st.booleans()) else line for number, line in enumerate(lines)]
    text = "\n".join(lines) + "\n" + MODEL
    if draw(st.booleans()):
        text = text.replace(
            "  swap: true", f"  swap: {draw(st.sampled_from(['yes', 'on', 'True']))}\n  default_prefetch: 010  # law", 1
        )
    return text


@settings(max_examples=80)
@given(texts())
def test_a_repair_keeps_the_strategy_or_takes_its_finding_away(text: str) -> None:
    before = Reading.of(ORDER, text)
    after_text, done = repaired(ORDER, text)
    after = Reading.of(ORDER, after_text)
    errors = [Counter(f.rule for f in reading.findings if f.severity is Severity.ERROR) for reading in (before, after)]
    assert errors[1] <= errors[0]
    if any(finding.rule == "op-unescaped-dot" for finding in done):
        assert errors[1]["op-unescaped-dot"] < errors[0]["op-unescaped-dot"]
        return  # what an entry does that did nothing before may be warned of
    assert meaning(before.study) == meaning(after.study)
    for rule in {finding.rule for finding in done}:
        was, now = (sum(f.rule == rule for f in reading.findings) for reading in (before, after))
        assert now < was
    serious = [{f.rule for f in reading.findings if f.severity is not Severity.NOTE} for reading in (before, after)]
    assert serious[1] <= serious[0]
    assert len(after.findings) <= len(before.findings)


@settings(max_examples=50)
@given(texts())
def test_a_repair_is_done_once_and_only_takes_lines_away_or_changes_values(text: str) -> None:
    after, done = repaired(ORDER, text)
    assert repaired(ORDER, after) == (after, ())
    assert {c.text for c in comments(after)} <= {c.text for c in comments(text)}
    assert after.endswith(MODEL)
    if not done:
        assert after == text
    elif all(finding.rule in ("op-unescaped-dot", "yaml-trap") for finding in done):
        assert [c.text for c in comments(after)] == [c.text for c in comments(text)]
        assert len(after.splitlines()) == len(text.splitlines())
