"""STUDY -> REASON why no what-if is asked of a run whose layers are shared out over ranks, "" where none is.

What recomputing and swapping do was compared with dry runs where parameters alone are shared out. With tensor, context
and expert parallelism a layer communicates when it runs again, and in pipelines micro-batches are on their way at once.
"""

from __future__ import annotations

from swapconf.study.study import Study
from swapconf.words.phrases import phrase

_KEYS = ("tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel")


def shared_layers(study: Study) -> str:
    for key in _KEYS:
        entry = study.document.entry_at(f"parallelism.{key}")
        degree = entry.value.scalar if entry is not None else None
        if isinstance(degree, int) and degree > 1:
            return phrase(
                "what recompute and swap do with {key} {degree} is not predicted yet; `swapconf dryrun` runs it",
                key=key,
                degree=degree,
            )
    return ""
