"""STUDY + LEVEL -> FINDINGS: what of PyNative mode a dry run does not do, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Dialect
from swapconf.decide.modules import ONE_CARD
from swapconf.study.study import Study
from swapconf.upstream.versions import PYNATIVE, reached
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import mark, phrase

RULE = "pynative-not-rehearsed"
LEVEL = 1
_MINDSPORE = "2.10.0"  # the first with what mindformers 2.0.0 needs of it in PyNative mode
_ONE_RANK = phrase(
    "a dry run of PyNative mode simulates one card; hyper_parallel's sharding of parameters and operators is not in it"
)
_DEGREES = {
    "data_parallel_shard": mark("FSDP over {degree} ranks"),
    "tensor_parallel": mark("tensor parallelism over {degree} ranks"),
    "context_parallel": mark("context parallelism over {degree} ranks"),
    "pipeline_parallel": mark("a pipeline of {degree} stages"),
    "expert_parallel": mark("expert parallelism over {degree} ranks"),
}


def refusals(study: Study, level: int) -> Iterator[Finding]:
    """Errors; none for a graph-mode config."""
    config, versions = study.config, study.versions
    if config.dialect is not Dialect.PYNATIVE:
        return
    for package, used, first in (
        ("mindformers", versions.mindformers, PYNATIVE),
        ("mindspore", versions.mindspore, _MINDSPORE),
    ):
        if not reached(used, first):
            yield _finding(
                study,
                "training",
                phrase(
                    "PyNative training begins with {package} {first}, and {used} is installed here",
                    package=package,
                    first=first,
                    used=used,
                ),
                phrase("run it in an environment with mindformers 2.0.0 and MindSpore 2.10.0"),
            )
    if level != LEVEL:
        yield _finding(
            study,
            "training",
            phrase("level {level} is not there in PyNative mode", level=level),
            phrase("use --level 1: nothing is compiled, and workspace and times are estimated from graphs only"),
        )
    for key, words in _DEGREES.items():
        node = study.document.root.get("parallelism")
        value = node.get(key) if node is not None else None
        degree = value.scalar if value is not None else None
        if isinstance(degree, int) and not isinstance(degree, bool) and degree > 1:
            yield _finding(
                study,
                f"parallelism.{key}",
                phrase("{what} is not rehearsed: {reason}", what=phrase(words, degree=degree), reason=_ONE_RANK),
                phrase("ask for one card: --set parallelism.{key}=1", key=key),
            )


def told_of_one_card(study: Study) -> Iterator[Finding]:
    """That a rehearsal on one card shows nothing of what is asked for, where the run may be on several."""
    config = study.config
    if config.dialect is Dialect.PYNATIVE and study.modules and not config.pipeline.is_one_card:
        yield Finding(
            origin=config.origin("recompute.mode", "swap.enable", "recompute_comm.enable"),
            rule=ONE_CARD,
            severity=Severity.WARNING,
            message=phrase(
                "one card is simulated, and there mindformers applies neither recompute nor swap: the peak is that of "
                "a run without them"
            ),
            hint=phrase("on several cards the layers hold less, and each card its share of the parameters"),
        )


def _finding(study: Study, path: str, message: str, hint: str) -> Finding:
    document, node, entry = study.document, study.document.root, None
    for key in path.split("."):
        entry = node.entries.get(key)
        if entry is None:
            break
        node = entry.value
    origin = Origin(file=document.file, path=path) if entry is None else document.key_origin(entry, path)
    return Finding(origin=origin, rule=RULE, severity=Severity.ERROR, message=message, hint=hint)
