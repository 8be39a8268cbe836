"""The arrows, composed once; reads top to bottom like the README."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf import catalog
from swapconf.config import Config, Dialect
from swapconf.errors import Finding, in_order
from swapconf.formats import yaml_config
from swapconf.formats.nodes import Document
from swapconf.network import Layer, LayerTemplate, Network
from swapconf.phrases import phrase
from swapconf.resolve import budget, modules
from swapconf.resolve.expand import expand
from swapconf.resolve.knowledge import Versions
from swapconf.resolve.requests import stage_map
from swapconf.resolve.rules import check_all
from swapconf.resolve.rules.case import Case
from swapconf.strategy import ModuleDecision, Strategy

_NO_FAMILIES: Mapping[str, str] = {}
_UNKNOWN = LayerTemplate(name="unknown", cell="?", operators=())


@dataclass(frozen=True, slots=True)
class Study:
    """All that is known of one config: what it asks for, what that means, and what is wrong with it.

    ``network`` and ``strategy`` are None when the number of layers is not known, and in PyNative mode, where
    ``modules`` says what is decided.
    """

    config: Config
    network: Network | None
    strategy: Strategy | None
    findings: tuple[Finding, ...]
    modules: tuple[ModuleDecision, ...] = ()

    @property
    def why_no_strategy(self) -> str:
        """What to say where a strategy is needed and there is none."""
        if self.config.dialect is Dialect.PYNATIVE:
            return phrase("this is a PyNative config, and swapconf predicts graph mode only")
        return phrase("the YAML does not give the number of layers")


def study_file(path: str | Path, versions: Versions, environment: Mapping[str, str]) -> Study:
    """Read, resolve and check one YAML. Raises SwapconfError when there is nothing to read."""
    config, findings = yaml_config.read(path)
    return study(config, findings, versions, environment)


def study_document(document: Document, versions: Versions, environment: Mapping[str, str],
                   families: Mapping[str, str] = _NO_FAMILIES) -> Study:
    """The same for a document that is already read, as a launched training run has it.

    ``families``: by name of a model class that the catalog does not know, the family whose layers it has.
    """
    config, findings = yaml_config.from_document(document)
    return study(config, findings, versions, environment, families)


def study(config: Config, findings: tuple[Finding, ...], versions: Versions,
          environment: Mapping[str, str], families: Mapping[str, str] = _NO_FAMILIES) -> Study:
    """Resolve and check a config; all its patterns share one budget of time."""
    with budget.shared():
        network = network_of(config, families)
        strategy = expand(config, network, versions) if network is not None else None
        case = Case(config=config, versions=versions, network=network, strategy=strategy, environment=environment)
        decided = modules.decide(config) if config.dialect is Dialect.PYNATIVE else ()
        return Study(config, network, strategy, in_order([*findings, *check_all(case)]), decided)


def network_of(config: Config, families: Mapping[str, str] = _NO_FAMILIES) -> Network | None:
    """The network that the catalog knows for a config; one without operators for an unknown family."""
    count = config.model.num_layers
    if count is None or config.dialect is Dialect.PYNATIVE:  # the catalog holds operators of graph mode
        return None
    family = catalog.identify(config.model.section, use_legacy=config.model.legacy, also=families)
    if family is None:
        return Network(family=None, layers=_layers(config, (_UNKNOWN,) * count),
                       near=catalog.near(config.model.section, use_legacy=config.model.legacy))
    # some cells are built otherwise when operators are selected for recompute; mindformers passes it on like this
    chosen = {"recompute": {"select_recompute": bool(config.recompute.select)}}
    settings, known = {**config.model.settings, "parallel_config": chosen}, catalog.load(family)
    layers = _layers(config, catalog.templates_for(family, settings, count))
    if layers:  # multi-token prediction takes the settings of the last layer
        layers += tuple(replace(layers[-1], name=name, template=template)
                        for name, template in catalog.extra_layers_for(family, settings))
    return Network(family=family, layers=layers, flash_attention=known.flash_attention,
                   shared=known.shared_primitives, approximated=catalog.approximated(family, settings))


def _layers(config: Config, templates: tuple[LayerTemplate, ...]) -> tuple[Layer, ...]:
    stages = stage_map(config, len(templates))
    return tuple(Layer(index=index, name=str(index), template=template, stage=stages.pipeline_stage(index),
                       interleave=stages.places[index][0]) for index, template in enumerate(templates))
