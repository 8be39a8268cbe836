from __future__ import annotations

import time

import pytest

from swapconf.decide import budget
from swapconf.decide.patterns import (
    BadPattern,
    compiled,
    escaped,
    matches,
    primitives_below,
    suggestions,
    unescaped_dot,
)
from swapconf.models.network import LayerTemplate
from tests.helpers import study_of_values
from tests.unit.networks import TOY, cell, primitive


def paths(pattern: str) -> list[str]:
    return [operator.path for operator in matches(pattern, TOY)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("attention", ["attention"]),
        (r"attention\.flash_attention", ["attention.flash_attention"]),
        (r".*\.flash_attention", ["attention.flash_attention"]),
        ("attention.flash_attention", []),
        ("(attention|feed_forward)", ["attention", "feed_forward"]),
        (r".*\.w.\.matmul", ["attention.wq.matmul", "feed_forward.w2.matmul"]),
        ("atten", []),
        ("Attention", []),
        ("", []),
        (r"attention\.", []),
        ("add", ["add"]),
    ],
)
def test_each_element_matches_a_whole_name(pattern: str, expected: list[str]) -> None:
    assert paths(pattern) == expected


@pytest.mark.parametrize(
    "pattern", ["(attention", "*", "[", "a" * 300, "((a{999}){999}){999}", "(?R)", "(?1)", "a{99999999999999999999}"]
)
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
        "attention.wq.matmul",
        "attention.flash_attention.flash_attention",
    ]
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


@pytest.mark.parametrize(
    ("pattern", "best"),
    [
        ("Attention", "attention"),
        (r"layers\.0\.attention", "attention"),
        ("flash_attention", r"attention\.flash_attention"),
        ("feed_forwar", "feed_forward"),
        ("qqqqqq", None),
    ],
)
def test_did_you_mean(pattern: str, best: str | None) -> None:
    found = suggestions(pattern, (TOY,))
    assert (found[0] if found else None) == best


def test_escaped_matches_only_itself() -> None:
    odd = LayerTemplate(name="x", cell="X", operators=(cell("a+b"), primitive("a+b.c[0]"), cell("aab")))
    assert [o.path for o in matches(escaped("a+b.c[0]"), odd)] == ["a+b.c[0]"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(?>" * 11 + "a" + ")+" * 11,
        "[)]" * 11 + "(?>" * 11 + "a" + ")+" * 11,
        r"\)" * 11 + "(" * 11 + ")" * 11,
        "(?x)# [\n" + "(?>" * 11 + "a" + ")+" * 11,
    ],
)
def test_nesting_is_bounded_because_compiling_can_double_with_each_group(pattern: str) -> None:
    with pytest.raises(BadPattern, match="nested deeper"):
        compiled(pattern)


def test_as_many_groups_as_are_wanted_side_by_side() -> None:
    assert paths(r"(a|b)?(c|d)?(e|f)?(g|h)?(i|j)?(k|l)?(m|n)?(o|p)?(q|r)?(s|t)?(u|v)?attention") == ["attention"]


def hostile_config(num_patterns: int) -> dict[str, object]:
    slow = r"((\w|[a-z])+(\w|[a-z])+(\w|[a-z])+)+[A-Z5]"
    swaps = [
        {"op_name": r"[a-z]+\." + f"{slow}{{1,{number + 1}}}", "backward_prefetch": 1, "layers": True}
        for number in range(num_patterns)
    ]
    return {
        "model": {"model_config": {"type": "LlamaConfig", "num_layers": 32}},
        "swap_config": {"swap": True, "op_swap": swaps},
    }


def test_all_patterns_of_a_file_share_one_budget() -> None:
    start = time.process_time()
    found = study_of_values(hostile_config(60)).findings
    assert time.process_time() - start < 2 * budget.FILE_SECONDS + 0.5
    told = [finding for finding in found if finding.rule == "bad-pattern"]
    assert len(told) == 60
    assert any("matching takes longer" in finding.message for finding in told)
    assert any("of this file take longer" in finding.message for finding in told)


def test_a_good_pattern_beside_a_bad_one_is_still_applied() -> None:
    config = hostile_config(1)
    swaps = config["swap_config"]["op_swap"]  # type: ignore[index]
    swaps.append({"op_name": "feed_forward", "backward_prefetch": 1, "layers": True})
    study = study_of_values(config)
    assert [finding.rule for finding in study.findings if finding.severity.value == "error"] == ["bad-pattern"]
    assert study.strategy is not None
    assert all(entry.plan.outcomes for entry in study.strategy.layers)


def test_outside_of_a_file_each_pattern_has_a_budget_of_its_own() -> None:
    spent = budget.current()
    spent.left_seconds = 0
    assert paths("attention") == ["attention"]


def test_a_spent_budget_refuses_and_a_hopeless_pattern_is_not_tried_again() -> None:
    left, name = budget.Budget(), "a_name_on_which_it_backtracks"
    slow = r"((\w|[a-z])+(\w|[a-z])+)+[A-Z5]"
    for _ in range(2):
        start = time.thread_time()
        with pytest.raises(budget.Spent, match="simplify its repetitions"):
            left.fits(compiled(slow)[0], name, slow)
    assert time.thread_time() - start < budget.MATCH_SECONDS / 2
    assert left.fits(compiled("a.*")[0], name, "a.*")
    left.left_seconds = 0
    with pytest.raises(budget.Spent, match="of this file"):
        left.fits(compiled("a.*")[0], name, "a.*")


def test_the_number_of_patterns_in_a_file_is_bounded() -> None:
    swaps = [
        {"op_name": f"attention{number}", "backward_prefetch": 1, "layers": [0]}
        for number in range(budget.MAX_PATTERNS + 1)
    ]
    config = {
        "model": {"model_config": {"type": "LlamaConfig", "num_layers": 1}},
        "swap_config": {"swap": True, "op_swap": swaps},
    }
    told = [finding.message for finding in study_of_values(config).findings if finding.rule == "bad-pattern"]
    assert told
    assert all(f"more than {budget.MAX_PATTERNS} patterns" in message for message in told)
