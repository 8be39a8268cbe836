from __future__ import annotations

import time

import pytest

from swapconf.network import LayerTemplate
from swapconf.resolve.patterns import (
    BadPattern,
    compiled,
    escaped,
    matches,
    primitives_below,
    suggestions,
    unescaped_dot,
)
from tests.unit.networks import TOY, cell, primitive


def paths(pattern: str) -> list[str]:
    return [operator.path for operator in matches(pattern, TOY)]


@pytest.mark.parametrize(("pattern", "expected"), [
    ("attention", ["attention"]),
    (r"attention\.flash_attention", ["attention.flash_attention"]),
    (r".*\.flash_attention", ["attention.flash_attention"]),
    ("attention.flash_attention", []),
    ("(attention|feed_forward)", ["attention", "feed_forward"]),
    (r".*\.w.\.matmul", ["attention.wq.matmul", "feed_forward.w2.matmul"]),
    ("atten", []), ("Attention", []), ("", []), (r"attention\.", []),
    ("add", ["add"]),
])
def test_each_element_matches_a_whole_name(pattern: str, expected: list[str]) -> None:
    assert paths(pattern) == expected


@pytest.mark.parametrize("pattern", [
    "(attention", "*", "[", "a" * 300, "((a{999}){999}){999}", "(?R)", "(?1)", "a{99999999999999999999}",
])
def test_unusable_patterns(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compiled(pattern)


def test_a_pattern_that_backtracks_without_end_is_refused_in_time() -> None:
    long = LayerTemplate(name="x", cell="X", operators=(primitive("a" * 40 + "b"),))
    start = time.monotonic()
    with pytest.raises(BadPattern, match="longer than"):
        matches("(a|a|aa)+$", long)
    assert time.monotonic() - start < 5


def test_primitives_below() -> None:
    assert [p.path for p in primitives_below("attention", TOY)] == [
        "attention.wq.matmul", "attention.flash_attention.flash_attention"]
    assert len(primitives_below("", TOY)) == len(TOY.primitives)
    assert [p.path for p in primitives_below("add", TOY)] == ["add"]


def test_a_name_that_starts_like_another_is_not_below_it() -> None:
    template = LayerTemplate(name="x", cell="X", operators=(cell("w"), primitive("w.m"), cell("wq"), primitive("wq.m")))
    assert [p.path for p in primitives_below("w", template)] == ["w.m"]


def test_unescaped_dot_shows_the_escaped_form() -> None:
    assert unescaped_dot("attention.flash_attention", TOY) == r"attention\.flash_attention"
    assert unescaped_dot("attention/wq", TOY) == r"attention\.wq"
    assert unescaped_dot("nothing.here", TOY) is None
    assert unescaped_dot(r"attention\.wq", TOY) is None


@pytest.mark.parametrize(("pattern", "best"), [
    ("Attention", "attention"),
    (r"layers\.0\.attention", "attention"),
    ("flash_attention", r"attention\.flash_attention"),
    ("feed_forwar", "feed_forward"),
    ("qqqqqq", None),
])
def test_did_you_mean(pattern: str, best: str | None) -> None:
    found = suggestions(pattern, (TOY,))
    assert (found[0] if found else None) == best


def test_escaped_matches_only_itself() -> None:
    odd = LayerTemplate(name="x", cell="X", operators=(cell("a+b"), primitive("a+b.c[0]"), cell("aab")))
    assert [o.path for o in matches(escaped("a+b.c[0]"), odd)] == ["a+b.c[0]"]
