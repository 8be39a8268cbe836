"""STUDY -> FINDINGS: which parallel layouts of a PyNative run the stand-in for hyper_parallel does not have.

It has what mindformers 2.1.0 asks of it for tensor, sequence, context and expert parallelism and for pipelines; 2.0.0
asks for operators on whole distributed tensors. Source: mindformers 2.0.0 and 2.1.0, pynative/distributed/style.py,
expert_parallel.py, pipeline_parallel.py and pynative/base_models/gpt/parallelize.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.dryrun.pynative.refusal import count_at, refusal, value_at
from swapconf.study.study import Study
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding
from swapconf.words.phrases import mark, phrase

FIRST = "2.1.0"
_DEGREES = {
    "tensor_parallel": mark("tensor parallelism over {degree} ranks"),
    "context_parallel": mark("context parallelism over {degree} ranks"),
    "pipeline_parallel": mark("a pipeline of {degree} stages"),
    "expert_parallel": mark("expert parallelism over {degree} ranks"),
}
# the degree that makes it count, the key, what asks for it, the value without it, and what of it is not there
_NOT_THERE = (
    (
        "tensor_parallel",
        "parallelism.enable_mc2",
        True,
        "False",
        mark("operators that multiply and communicate at once (MC2) have no dry run: they are hyper_parallel's own"),
    ),
    (
        "context_parallel",
        "parallelism.context_parallel_async",
        True,
        "False",
        mark("asynchronous context parallelism has no dry run: the stand-in for hyper_parallel waits for exchanges"),
    ),
    (
        "pipeline_parallel",
        "parallelism.pipeline_parallel_overlap_b_f",
        True,
        "False",
        mark("overlapping passes of a pipeline have no dry run: the stand-in for hyper_parallel runs one at a time"),
    ),
    (
        "pipeline_parallel",
        "parallelism.pipeline_parallel_overlap_p2p",
        True,
        "False",
        mark("overlapping transfers of a pipeline have no dry run: the stand-in for hyper_parallel waits for each"),
    ),
    (
        "pipeline_parallel",
        "swap.enable",
        True,
        "False",
        mark("swap in a pipeline has no dry run: its copies are steps of hyper_parallel's schedules"),
    ),
    (
        "expert_parallel",
        "parallelism.moe_token_dispatcher_type",
        "alltoall_deredundancy",
        "alltoall",
        mark(
            "this dispatch of tokens has no dry run: it reads more counts from the device than are spread evenly here"
        ),
    ),
)


def of_layout(study: Study) -> Iterator[Finding]:
    used = study.versions.mindformers
    for key, words in _DEGREES.items():
        degree = _degree(study, key)
        if degree > 1 and not reached(used, FIRST):
            yield refusal(
                study,
                f"parallelism.{key}",
                phrase(
                    "{what} has no dry run with mindformers {version}: it asks for operators on hyper_parallel's "
                    "distributed tensors, which the stand-in does not have",
                    what=phrase(words, degree=degree),
                    version=used,
                ),
                phrase(
                    "use an environment with mindformers {first}, or ask for it without: --set parallelism.{key}=1",
                    first=FIRST,
                    key=key,
                ),
            )
    for key, path, asked, usual, words in _NOT_THERE:
        if _degree(study, key) > 1 and value_at(study, path) == asked:
            hint = phrase("ask for it without: --set {path}={usual}", path=path, usual=usual)
            yield refusal(study, path, phrase(words), hint)
    yield from _of_attention(study)


def _of_attention(study: Study) -> Iterator[Finding]:
    """Sparse and compressed attention have a context parallelism of their own."""
    if study.config.model.has_sparse_attention and _degree(study, "context_parallel") > 1:
        yield refusal(
            study,
            "parallelism.context_parallel",
            phrase(
                "context parallelism of sparse attention has no dry run: the stand-in for hyper_parallel has that of "
                "whole attention"
            ),
            phrase("ask for it without: --set parallelism.context_parallel=1"),
        )


def _degree(study: Study, key: str) -> int:
    return count_at(study, f"parallelism.{key}") or 1
