"""STUDY + LEVEL -> FINDINGS: what of PyNative mode a dry run does not do, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Dialect
from swapconf.decide.modules import ONE_CARD
from swapconf.study.study import Study
from swapconf.upstream.versions import PYNATIVE, reached
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import mark, phrase

RULE = "pynative-no-dry-run"
LEVEL = 1
_MINDSPORE = "2.10.0"  # the first with what mindformers 2.0.0 needs of it in PyNative mode
_SHARDS = "data_parallel_shard"
# key -> what it asks for, and what of it a dry run lacks. Source: mindformers 2.0.0, pynative/distributed/style.py,
# context_parallel.py, pipeline_parallel.py and expert_parallel.py.
_DEGREES = {
    "tensor_parallel": (
        mark("tensor parallelism over {degree} ranks"),
        mark(
            "it lays out the weights by hyper_parallel's distributed tensors, which the stand-in for it does not have"
        ),
    ),
    "context_parallel": (
        mark("context parallelism over {degree} ranks"),
        mark("its attention is hyper_parallel's ContextParallel, which the stand-in for it does not have"),
    ),
    "pipeline_parallel": (
        mark("a pipeline of {degree} stages"),
        mark("stages and their schedule are hyper_parallel's PipelineStage, which the stand-in for it does not have"),
    ),
    "expert_parallel": (
        mark("expert parallelism over {degree} ranks"),
        mark("how many tokens each rank gets is read from the device, and a simulated one tells zeros"),
    ),
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
    for key, (words, reason) in _DEGREES.items():
        degree = _count(study, f"parallelism.{key}")
        if degree is not None and degree > 1:
            yield _finding(
                study,
                f"parallelism.{key}",
                phrase("{what} has no dry run: {reason}", what=phrase(words, degree=degree), reason=phrase(reason)),
                phrase(
                    "ask for it without: --set parallelism.{key}=1; of several ranks those that share parameters "
                    "(data_parallel_shard) are simulated",
                    key=key,
                ),
            )
    yield from _of_shards(study)


def _of_shards(study: Study) -> Iterator[Finding]:
    """What of FSDP the stand-in does not do. Source of the last: mindformers 2.0.0, Trainer, where both sizes are 1 if
    they are not given."""
    ranks = _count(study, f"parallelism.{_SHARDS}")
    if ranks is None or ranks < 2:
        return
    if _value(study, "parallelism.cpu_offload") is True:
        yield _finding(
            study,
            "parallelism.cpu_offload",
            phrase("shards on the host have no dry run: the stand-in for hyper_parallel keeps them on the card"),
            phrase("ask for it without: --set parallelism.cpu_offload=False"),
        )
    fewer = _count(study, "parallelism.dense_fsdp_shard_size")
    if fewer is not None and fewer != ranks:
        yield _finding(
            study,
            "parallelism.dense_fsdp_shard_size",
            phrase(
                "parameters in {fewer} shards on {ranks} ranks have no dry run: the stand-in for hyper_parallel has "
                "no copies of shards (HSDP)",
                fewer=fewer,
                ranks=ranks,
            ),
            phrase("ask for it without: --set parallelism.dense_fsdp_shard_size={ranks}", ranks=ranks),
        )
    yield from _of_shapes(study, ranks)
    if _value(study, "optimizer.type") == "Muon":
        yield _finding(
            study,
            "optimizer.type",
            phrase("Muon on shards has no dry run: it asks hyper_parallel's tensors how they lie on the ranks"),
            phrase("ask for it with --set optimizer.type=AdamW"),
        )
    batch, each = _count(study, "training.global_batch_size") or 1, _count(study, "training.local_batch_size") or 1
    if batch < ranks * each:
        yield _finding(
            study,
            "training.global_batch_size",
            phrase(
                "{ranks} ranks of local_batch_size {each} cannot share a global_batch_size of {batch}, and mindformers "
                "stops",
                ranks=ranks,
                each=each,
                batch=batch,
            ),
            phrase("ask for --set training.global_batch_size={size}", size=ranks * each),
        )


def _of_shapes(study: Study, ranks: int) -> Iterator[Finding]:
    """Norms, which mindformers shards whatever their shape; what else does not go into equal shards stays whole.

    Source: mindformers 2.0.0, pynative/base_models/gpt/parallelize.py, apply_fsdp.
    """
    size = _count(study, "model.hidden_size")
    if size is not None and size % ranks:
        yield _finding(
            study,
            f"parallelism.{_SHARDS}",
            phrase(
                "norms of hidden_size {size} do not go into {ranks} equal shards, and the stand-in for hyper_parallel "
                "makes no others",
                size=size,
                ranks=ranks,
            ),
            phrase("ask for a number of ranks that divides it"),
        )


def _value(study: Study, path: str) -> object:
    """What stands there, None where nothing does."""
    entry = study.document.entry_at(path)
    return entry.value.scalar if entry is not None else None


def _count(study: Study, path: str) -> int | None:
    value = _value(study, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def told_of_one_card(study: Study) -> Iterator[Finding]:
    """That a dry run on one card shows nothing of what is asked for, where the run may be on several."""
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


def told_of_all_cards(study: Study) -> Iterator[Finding]:
    """That a degree of -1, all cards of the launch, was taken for one: the YAML does not tell how many."""
    if study.config.dialect is Dialect.PYNATIVE and _count(study, f"parallelism.{_SHARDS}") == -1:
        yield _finding(
            study,
            f"parallelism.{_SHARDS}",
            phrase(
                "-1 means all cards of the launch, which the YAML does not tell: one is simulated, with all parameters"
            ),
            phrase("ask for as many as there will be: --set parallelism.data_parallel_shard=8"),
            Severity.NOTE,
        )


def _finding(study: Study, path: str, message: str, hint: str, severity: Severity = Severity.ERROR) -> Finding:
    """At its line, or at that of the section where it is not written."""
    document = study.document
    way = document.way_to(path)
    origin = document.key_origin(way[-1], path) if way else Origin(file=document.file, path=path)
    return Finding(origin=origin, rule=RULE, severity=severity, message=message, hint=hint)
