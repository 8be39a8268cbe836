"""STUDY against what mindformers passes to LayerSetting: the same model, stages, swap and recompute, or an error.

The study decides; this only looks for what got another value on the way, in the training script or in mindformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from swapconf.config import yaml_config
from swapconf.config.config import Config, SwapOff
from swapconf.config.nodes import Document, from_plain, nowhere
from swapconf.decide.expand import expand
from swapconf.decide.requests import Requests, stage_map
from swapconf.decide.strategy import Request
from swapconf.models.network import Network
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "passed-otherwise"
# LayerSetting's layout of a block, by the names of a training YAML; where these are given, they are what is built
_LAYOUT = ("num_layers", "offset", "pp_interleave_num", "start_stage")
_NOWHERE = Origin(file="")
_LISTS = ("full", "select", "select_comm", "select_exclude", "select_comm_exclude")


def with_layout(document: Document, block: Mapping[str, Any]) -> Document:
    """The document for the layers of a block, as mindformers lays them out."""
    settings: Any = document.root.plain()
    model = _section(settings, "model")
    laid_out = {key: value for key, value in block["model"]["model_config"].items() if key in _LAYOUT}
    return from_plain(
        {
            **settings,
            "use_legacy": block["use_legacy"],
            "parallel": {**_section(settings, "parallel"), **block["parallel"]},
            "parallel_config": {**_section(settings, "parallel_config"), **block["parallel_config"]},
            "model": {**model, "model_config": {**_section(model, "model_config"), **laid_out}},
        },
        document,
    )


def _section(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def differences(study: Study, block: Mapping[str, Any]) -> tuple[Finding, ...]:
    """An error for each thing that a block has otherwise than the study."""
    return tuple(_differences(study, _read(study, block)))


def _read(study: Study, block: Mapping[str, Any]) -> Config:
    """The block as a config; its lists of recomputed layers mean what they mean in the study."""
    config, _ = yaml_config.from_document(from_plain(dict(block), nowhere("<model config>")))
    if config.swap_on == study.config.swap_on:
        return config
    switched = {**block, "swap_config": {"swap": study.config.swap_on}}
    again, _ = yaml_config.from_document(from_plain(switched, nowhere("<model config>")))
    return replace(again, swap=config.swap)


def _differences(study: Study, theirs: Config) -> Iterator[Finding]:
    ours, count = study.config, study.config.model.num_layers or 0
    if count != theirs.model.num_layers:
        yield passed_otherwise(
            ours.origin("model.model_config.num_layers", "model.model_config", "model"),
            phrase(
                "mindformers builds {passed} layers, and the config was read as {read}",
                passed=theirs.model.num_layers,
                read=count,
            ),
        )
        return
    if stage_map(ours, count).places != stage_map(theirs, count).places:
        yield passed_otherwise(
            ours.origin("model.model_config.offset", "parallel_config.pipeline_stage", "parallel_config"),
            phrase("mindformers deals the layers to the pipeline stages otherwise than the config was read"),
        )
    # mcore models of mindformers up to 2.1.0 are passed no swap_config (TransformerOpParallelConfig.to_dict)
    is_passed = ours.model.legacy or not isinstance(theirs.swap, SwapOff)
    if is_passed and not _means_the_same(study, replace(ours, swap=theirs.swap)):
        yield passed_otherwise(
            ours.origin("swap_config.swap", "swap_config"),
            phrase("mindformers passes another swap to the layers than the config has"),
        )
    if not _means_the_same(
        study,
        replace(ours, recompute=replace(ours.recompute, **{name: getattr(theirs.recompute, name) for name in _LISTS})),
    ):
        yield passed_otherwise(
            ours.origin("recompute_config.recompute", "recompute_config"),
            phrase("mindformers passes another recompute to the layers than the config has"),
        )


def _means_the_same(study: Study, other: Config) -> bool:
    """Whether another config decides the same for the model of the study. One that asks for the same does."""
    assert study.network is not None
    assert study.strategy is not None
    if _asked(study.config, study.network) == _asked(other, study.network):
        return True
    again = expand(other, study.network, study.versions)
    return all(
        one.plan.actions() == two.plan.actions() and one.plan.comm_recompute == two.plan.comm_recompute
        for one, two in zip(study.strategy.layers, again.layers, strict=True)
    )


def _asked(config: Config, network: Network) -> list[tuple[Request, ...]]:
    """What a config asks for at each layer, wherever it is written."""
    requests, known = Requests(config, network), dict[tuple[Request, ...], tuple[Request, ...]]()

    def placeless(asked: tuple[Request, ...]) -> tuple[Request, ...]:
        if asked not in known:
            known[asked] = tuple(replace(request, origin=_NOWHERE) for request in asked)
        return known[asked]

    return [placeless(requests.at(layer)) for layer in network.layers]


def passed_otherwise(origin: Origin, message: str) -> Finding:
    return Finding(
        origin=origin,
        rule=RULE,
        severity=Severity.ERROR,
        message=message,
        hint=phrase(
            "a script changed it after the config was read: change the YAML instead; or start the "
            "script without swapconf"
        ),
    )
