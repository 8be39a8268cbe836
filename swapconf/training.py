"""One training process: reviews its config and plans its layers, for the hook into mindformers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from swapconf.annotate import hook
from swapconf.annotate.edits import Edit, edits
from swapconf.config import Config, Dialect, SwapOff
from swapconf.errors import SwapconfError, has_errors
from swapconf.formats import worker_log, yaml_config
from swapconf.formats.nodes import Document, from_plain, nowhere
from swapconf.network import Layer, LayerTemplate, Network, with_graph
from swapconf.pipeline import Study, network_of, study_document
from swapconf.resolve.expand import Decider, held_back
from swapconf.resolve.knowledge import Versions
from swapconf.resolve.requests import Requests, stage_map
from swapconf.strategy import LayerStrategy

_NO_TEMPLATE = LayerTemplate(name="unread", cell="?", operators=())


class Session:
    """``source``: the YAML that the run was started with, so that findings point into it."""

    def __init__(self, source: Document | None = None) -> None:
        self._source = source or nowhere()
        self._versions = Versions.in_use()
        self._study: Study | None = None

    def review(self, config: Mapping[str, Any]) -> None:
        study = study_document(from_plain(dict(config), self._source), self._versions, os.environ)
        if has_errors(study.findings):
            raise SwapconfError(study.findings)
        self._study = study

    @property
    def _pynative(self) -> bool:
        """Whether the sections are PyNative's, of which graph mode reads nothing."""
        return self._study is not None and self._study.config.dialect is Dialect.PYNATIVE

    def wants_lazy_inline(self) -> bool:
        return self._study is not None and self._study.config.swap_on and not self._pynative

    def planner(self, block: Mapping[str, Any]) -> LayerPlanner:
        config, findings = yaml_config.from_document(from_plain(dict(block), nowhere("<model config>")))
        if has_errors(findings):
            raise SwapconfError(findings)
        known = self._study.network if self._study is not None else None
        if self._study is not None and not self._pynative and not config.model.legacy and \
                isinstance(config.swap, SwapOff):
            # mindformers 1.9.0 loses swap_config on the way to an mcore model (TransformerOpParallelConfig.to_dict)
            config = replace(config, swap=self._study.config.swap)
        return LayerPlanner(config, known or network_of(config), self._versions)


class LayerPlanner:
    """Plans the layers of one block. ``known``: what the catalog says of the model, for who reads whose output."""

    def __init__(self, config: Config, known: Network | None, versions: Versions) -> None:
        count = config.model.num_layers or 0
        blank = tuple(Layer(index=index, name=str(index), template=_NO_TEMPLATE) for index in range(count))
        bare = Network(family=None, layers=blank)
        self._requests = Requests(config, replace(known, layers=blank) if known is not None else bare)
        self._stages = stage_map(config, count)
        self._config = config
        self._known = known
        held = held_back(config, known, versions) if known is not None else frozenset[str]()
        self._decider = Decider(config, versions, held)
        # by identity, as the reader gives equal layers one object: what was read, and the same with its graph
        self._templates: dict[int, tuple[LayerTemplate, LayerTemplate]] = {}
        self._edits: dict[int, tuple[Edit, ...]] = {}  # by identity of the plan, which equal layers share

    def order(self, index: int, template: LayerTemplate) -> hook.LayerOrder:
        """The order for the real layer ``template`` at a global index."""
        if id(template) not in self._templates:
            known = self._known.templates if self._known is not None else ()
            self._templates[id(template)] = template, with_graph(template, known)
        layer = Layer(index=index, name=str(index), template=self._templates[id(template)][1],
                      stage=self._stages.pipeline_stage(index), interleave=self._stages.places[index][0])
        plan = self._decider.plan(layer.template, self._requests.at(layer))
        if id(plan) not in self._edits:
            self._edits[id(plan)] = edits(plan, layer.template, self._decider.recompute_options)
        entry = LayerStrategy(layer, plan)
        pipeline = self._config.pipeline
        return hook.LayerOrder(
            pipeline_stage=layer.stage,
            pipeline_segment=int(layer.interleave == 1) if pipeline.zero_bubble_v else None,
            comm_fusion=self._fusion(index),
            edits=self._edits[id(plan)],
            lines=worker_log.lines(entry, self._config.swap_on))

    def _fusion(self, index: int) -> int:
        """The group in which the gradients of a layer are reduced (mindformers 1.9.0, set_communication_fusion)."""
        pipeline = self._config.pipeline
        if pipeline.num_stages > 1:
            return 2
        layers_per_group = max((len(self._stages.places) + 1) // pipeline.gradient_aggregation_group, 1)
        return index // layers_per_group + 1


def install(source: Document | None = None) -> None:
    """Take LayerSetting's place in this process. ``source``: the YAML that findings should point into."""
    hook.install(Session(source))
