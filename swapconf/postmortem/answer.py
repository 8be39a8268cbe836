"""LOGS -> ANSWER: the failure that came first, whose it was, why, and what to do about it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from swapconf.postmortem.cause import Cause, Diagnosis, diagnose
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.message import Framework, Memory
from swapconf.postmortem.remedies import BEFORE_STEPS, Case, remedies
from swapconf.postmortem.run_log import RunLog
from swapconf.postmortem.whose import Whose, whose
from swapconf.words.units import GIB

_YAML = "train.yaml"
_NO_PLAN = frozenset({Cause.HOST, Cause.TOO_LARGE, Cause.SETTING_TOO_HIGH, Cause.UNREAL})


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """``plan_words``: of `swapconf plan`, with which it finds what fits; none where no plan helps, or its budget is not
    known."""

    failure: Failure
    whose: Whose
    diagnosis: Diagnosis
    remedies: tuple[str, ...]
    plan_words: tuple[str, ...]

    @property
    def next_command(self) -> str:
        """A line of a shell."""
        return shlex.join(("swapconf", "plan", *self.plan_words)) if self.plan_words else ""


def answer(log: RunLog, *, config: str = "", set_memory: str = "", budget: str = "") -> Answer:
    """Of a log in which something failed. ``config``: the YAML of the run, ``set_memory``: its max_device_memory,
    ``budget``: instead of the one that the log shows."""
    failure = log.failures[0]
    found, owner = diagnose(failure), whose(failure)
    case = Case(failure=failure, whose=owner, diagnosis=found, set_memory=set_memory)
    asked = budget or ("" if owner.moment in BEFORE_STEPS else budget_of(failure, found))
    words = (config or log.config or _YAML, "--budget", asked, "--beside", "0")
    return Answer(
        failure=failure, whose=owner, diagnosis=found, remedies=remedies(case), plan_words=words if asked else ()
    )


def budget_of(failure: Failure, found: Diagnosis) -> str:
    """What the pool may take, rounded down, as `swapconf plan` takes it; "" where no plan helps or it is not known."""
    size = found.budget_bytes
    is_ours = failure.framework is not Framework.TORCH_NPU and failure.memory is Memory.DEVICE
    if size is None or found.cause in _NO_PLAN or not is_ours:
        return ""
    return f"{size}B" if size < GIB else f"{size * 100 // GIB / 100:.2f}GB"
