from __future__ import annotations

import signal

import pytest

from swapconf.dryrun.judge import fault, framework_error
from swapconf.dryrun.launch import Ending, Finished
from swapconf.dryrun.outcome import RankOutcome

TRACEBACK = """\
Traceback (most recent call last):
  File "worker.py", line 3, in main
    Trainer(config).train()
ValueError: num_heads should be divisible by model_parallel, but got 5 and 4.
[WARNING] PRE_ACT(1,2,python):2026-01-01 Dump] MemoryTracker Dump start
Used peak memory usage (without fragments): 0M
"""

MISSING = TRACEBACK.replace(
    "ValueError: num_heads should be divisible by model_parallel, but got 5 and 4.",
    "ModuleNotFoundError: No module named 'hyper_parallel'",
)
PLENTY = 1 << 40


def finished(ending: Ending, code: int = 0) -> Finished:
    return Finished(ending=ending, code=code, seconds=12.0)


def outcome(ending: Ending, code: int = 0, tail: str = "") -> RankOutcome | None:
    found = fault(finished(ending, code), tail, PLENTY)
    return found.outcome if found else None


def test_a_full_disk_is_told_even_where_the_log_has_no_room_for_the_message() -> None:
    found = fault(finished(Ending.EXITED, 1), "2026-11-20 - INFO - start", free_bytes=0)
    assert found is not None
    assert found.outcome is RankOutcome.NO_SPACE
    assert fault(finished(Ending.EXITED, 0), "all well", free_bytes=0) is None


@pytest.mark.parametrize(
    ("ending", "code", "tail", "expected"),
    [
        (Ending.EXITED, 0, "all well", None),
        (Ending.HUNG_AT_EXIT, 15, "peaks", None),
        (Ending.EXITED, 1, TRACEBACK, RankOutcome.STOPPED),
        (
            Ending.EXITED,
            1,
            TRACEBACK.replace("ValueError: num_heads", "RuntimeError: No module named num_heads"),
            RankOutcome.STOPPED,
        ),
        (Ending.EXITED, 1, MISSING, RankOutcome.NOT_INSTALLED),
        (Ending.EXITED, 1, "OSError: [Errno 28] No space left on device", RankOutcome.NO_SPACE),
        (Ending.SIGNALLED, signal.SIGSEGV, "", RankOutcome.CRASHED),
        (Ending.SIGNALLED, signal.SIGABRT, "", RankOutcome.CRASHED),
        (Ending.SIGNALLED, signal.SIGKILL, "", RankOutcome.KILLED),
        (Ending.TIMED_OUT, 15, "still compiling", RankOutcome.TIMED_OUT),
    ],
)
def test_each_ending_has_one_outcome(ending: Ending, code: int, tail: str, expected: RankOutcome | None) -> None:
    assert outcome(ending, code, tail) is expected


def test_the_frameworks_words_are_quoted_and_placed() -> None:
    found = fault(finished(Ending.EXITED, 1), TRACEBACK, PLENTY)
    assert found is not None
    assert found.detail == "ValueError: num_heads should be divisible by model_parallel, but got 5 and 4."
    assert found.paths[0] == "parallel_config.model_parallel"


def test_a_model_without_a_class_is_placed_at_the_model_though_the_message_shows_a_dataset() -> None:
    words = """KeyError: '`cfg` or `default_args` must contain the key "type",but got {\\'dataset_config\\': {}}'"""
    found = fault(finished(Ending.EXITED, 1), words, PLENTY)
    assert found is not None
    assert found.paths == ("model.model_config",)


def test_the_last_lines_are_told_where_there_is_no_exception() -> None:
    assert framework_error("one\n\n-------\ntwo\n") == "one | two"


def test_what_a_message_announces_is_told_though_an_empty_line_stands_between() -> None:
    tail = "ValueError: failed with the following problems:\n\n[Mapping Conflicts] (1 problem)\n  - target key\n\nend\n"
    told = "ValueError: failed with the following problems: [Mapping Conflicts] (1 problem) - target key"
    assert framework_error(tail) == told


def test_a_crash_names_the_signal_and_what_to_look_at() -> None:
    found = fault(finished(Ending.SIGNALLED, signal.SIGSEGV), "compiling layer 3", PLENTY)
    assert found is not None
    assert "SIGSEGV" in found.detail
    assert "backward_prefetch" in found.detail


def test_a_missing_module_is_not_put_down_to_the_yaml() -> None:
    found = fault(finished(Ending.EXITED, 1), MISSING, PLENTY)
    assert found is not None
    assert found.detail == "ModuleNotFoundError: No module named 'hyper_parallel'"
    assert found.paths == ()
    assert "correct the config" not in found.outcome.remedy()
    assert "environment" in found.outcome.remedy()
