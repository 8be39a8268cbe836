"""STUDY + LEVEL -> FINDINGS: what of PyNative mode a dry run does not do, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from swapconf.config.config import Dialect
from swapconf.decide.modules import ONE_CARD
from swapconf.dryrun.pynative.hyper_parallel_stand_in import PACKAGE
from swapconf.dryrun.pynative.layouts import FIRST, of_layout
from swapconf.dryrun.pynative.refusal import RULE, count_at, refusal, value_at
from swapconf.dryrun.rank_order import cluster_of
from swapconf.study.study import Study
from swapconf.upstream.versions import PYNATIVE, reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

__all__ = ["RULE", "is_stand_in", "refusals", "told_of_all_cards", "told_of_one_card"]
LEVEL = 1
_MINDSPORE = "2.10.0"  # the first with what mindformers 2.0.0 needs of it in PyNative mode
_SHARDS = "data_parallel_shard"
_MUON = "Muon"


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
            yield refusal(
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
        yield refusal(
            study,
            "training",
            phrase("level {level} is not there in PyNative mode", level=level),
            phrase("use --level 1: nothing is compiled, and workspace and times are estimated from graphs only"),
        )
    if is_stand_in():
        yield from of_layout(study)
        yield from _of_shards(study)


def is_stand_in() -> bool:
    """Whether hyper_parallel is not installed here; what the stand-in for it lacks, the real one may have."""
    return find_spec(PACKAGE) is None


def _of_shards(study: Study) -> Iterator[Finding]:
    """What of FSDP the stand-in does not do."""
    cluster = cluster_of(study.document)
    ranks = cluster.data_parallel
    if cluster.num_devices < 2:
        return
    if value_at(study, "parallelism.cpu_offload") is True:
        yield refusal(
            study,
            "parallelism.cpu_offload",
            phrase("shards on the host have no dry run: the stand-in for hyper_parallel keeps them on the card"),
            phrase("ask for it without: --set parallelism.cpu_offload=False"),
        )
    yield from _of_shapes(study, ranks * cluster.context_parallel)
    if value_at(study, "optimizer.type") == _MUON and not reached(study.versions.mindformers, FIRST):
        yield refusal(
            study,
            "optimizer.type",
            phrase(
                "Muon on shards has no dry run with mindformers {version}: it asks for operators on hyper_parallel's "
                "distributed tensors, which the stand-in does not have",
                version=study.versions.mindformers,
            ),
            phrase(
                "use an environment with mindformers {first}, or ask for it with --set optimizer.type=AdamW",
                first=FIRST,
            ),
        )


def _of_shapes(study: Study, ranks: int) -> Iterator[Finding]:
    """Norms, which mindformers shards whatever their shape; what else does not go into equal shards stays whole.

    Source: mindformers 2.0.0, pynative/base_models/gpt/parallelize.py, apply_fsdp.
    """
    size = count_at(study, "model.hidden_size")
    if size is not None and size % ranks:
        yield refusal(
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
    """That a negative degree, all cards of the launch, was taken for one: the YAML does not tell how many."""
    degree = count_at(study, f"parallelism.{_SHARDS}")
    if study.config.dialect is Dialect.PYNATIVE and degree is not None and degree < 0:
        yield refusal(
            study,
            f"parallelism.{_SHARDS}",
            phrase(
                "{degree} means all cards of the launch, which the YAML does not tell: here the parameters are not "
                "shared out",
                degree=degree,
            ),
            phrase("ask for as many as there will be: --set parallelism.data_parallel_shard=8"),
            Severity.NOTE,
        )
