"""BY STEP -> FINDINGS: what a run holds more of after each step, so that a long training runs out of it.

The first steps hold more than those before them in every run: the optimizer's state is first there in the second, and
caches fill. So what counts is what each step from the third on adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.config.config import Dialect
from swapconf.dryrun.by_step import StepMemory
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import Phrase, phrase, plural
from swapconf.words.units import show_bytes

RULE = "memory-grows"
WARM_UP = 2  # steps
LEAST = WARM_UP + 2  # steps that a run has to have, so that it is told what grows
# What a process takes more in a step, at most, without keeping anything of it: measured, docs/explanation/a-dry-run.md
NOISE_BYTES = 256 << 10


def growing(study: Study, rank: int, steps: Sequence[StepMemory]) -> Iterator[Finding]:
    """One finding for each kind of memory that grows. ``steps``: of one run, from the first on."""
    is_pynative = study.config.dialect is Dialect.PYNATIVE
    sections = ("recompute.mode", "training") if is_pynative else ("swap_config.swap", "swap_config", "runner_config")
    for grows, hint in _grown(study, steps):
        yield Finding(
            origin=study.config.origin(*sections),
            rule=RULE,
            severity=Severity.WARNING,
            message=phrase("rank {rank}: {grows}", rank=rank, grows=grows),
            hint=hint,
        )


def _grown(study: Study, steps: Sequence[StepMemory]) -> Iterator[tuple[Phrase, Phrase]]:
    """(what grows, what to do)"""
    if added := added_by_a_step([step.held_bytes for step in steps]):
        yield (
            phrase(
                "device memory grows by {size} with each step from the third on, and a long training runs out of it",
                size=show_bytes(added),
            ),
            phrase(
                "something keeps tensors of each step: look for it with fewer sections of the YAML (--unset swap, "
                "--unset recompute), and in code of your own"
            ),
        )
    if added := added_by_a_step([step.tensors for step in steps]):
        yield (
            plural(
                added,
                "{count} Tensor more stays in the process with each step from the third on",
                "{count} Tensors more stay in the process with each step from the third on",
            ),
            _keeper(study),
        )
    if added := added_by_a_step([step.process_bytes for step in steps], NOISE_BYTES):
        yield (
            phrase(
                "the process takes {size} more of its host with each step from the third on; runs that keep nothing "
                "take {noise} at most",
                size=show_bytes(added),
                noise=show_bytes(NOISE_BYTES),
            ),
            phrase("look for what keeps data of each step: callbacks, the data set, code of your own"),
        )


def _keeper(study: Study) -> Phrase:
    """Who keeps Tensors, as far as it is known."""
    recompute, keeps = study.config.recompute, study.versions.fact("stopped_recompute_keeps_a_tensor")
    if study.config.dialect is Dialect.PYNATIVE and keeps.value and (recompute.full is not None or recompute.select):
        return phrase(
            "known of recompute in MindSpore {version} ({source}): recompute fewer cells, or watch the memory of the "
            "host in a long training",
            version=study.versions.mindspore,
            source=keeps.source,
        )
    return phrase("look for what keeps them: a callback, or code of your own")


def added_by_a_step(held: Sequence[int], noise: int = 0) -> int:
    """What a step adds on average, where each from the third on adds more than the noise; 0 where one does not, or
    there are too few steps to tell."""
    if len(held) < LEAST:
        return 0
    added = [after - before for before, after in zip(held[WARM_UP - 1 :], held[WARM_UP:], strict=False)]
    return round(sum(added) / len(added)) if min(added) > noise else 0
