"""STUDY + REAL LAYER -> ORDER: what the study decides, for the operators that the layer really has."""

from __future__ import annotations

from dataclasses import replace

from swapconf.decide import log_lines
from swapconf.decide.edits import Edit, edits
from swapconf.decide.expand import Decider
from swapconf.decide.requests import Requests, stage_map
from swapconf.decide.strategy import LayerPlan, LayerStrategy
from swapconf.models.network import Layer, LayerTemplate, Network, with_graph
from swapconf.models.own_layers import LayersRead
from swapconf.study.study import Study
from swapconf.train import hook

_NO_TEMPLATE = LayerTemplate(name="unread", cell="?", operators=())


class LayerPlanner:
    """Plans the layers of one block. What the catalog knows of the model tells who reads whose output."""

    def __init__(self, study: Study, told: LayersRead | None = None) -> None:
        """``told``: is told of each layer as it was built."""
        self._told = told
        config, known = study.config, study.network
        count = config.model.num_layers or 0
        blank = tuple(Layer(index=index, name=str(index), template=_NO_TEMPLATE) for index in range(count))
        bare = Network(family=None, layers=blank)
        self._requests = Requests(config, replace(known, layers=blank) if known is not None else bare)
        self._stages = stage_map(config, count)
        self.lines = log_lines.of_options(config)
        self._config = config
        self._known = known
        self._decider = Decider(config, study.versions)
        self._templates: dict[LayerTemplate, LayerTemplate] = {}  # what was read, and the same with its graph
        self._edits: dict[LayerPlan, tuple[Edit, ...]] = {}

    def order(self, index: int, template: LayerTemplate) -> hook.LayerOrder:
        """The order for the real layer ``template`` at a global index."""
        if self._told is not None:
            self._told.add(index, template)
        if template not in self._templates:
            known = self._known.templates if self._known is not None else ()
            self._templates[template] = with_graph(template, known)
        layer = Layer(
            index=index,
            name=str(index),
            template=self._templates[template],
            stage=self._stages.pipeline_stage(index),
            interleave=self._stages.places[index][0],
        )
        plan = self._decider.plan(layer.template, self._requests.at(layer))
        if plan not in self._edits:
            self._edits[plan] = edits(plan, layer.template, self._decider.recompute_options)
        entry = LayerStrategy(layer, plan)
        pipeline = self._config.pipeline
        return hook.LayerOrder(
            pipeline_stage=layer.stage,
            pipeline_segment=int(layer.interleave == 1) if pipeline.zero_bubble_v else None,
            comm_fusion=self._fusion(index),
            edits=self._edits[plan],
            lines=log_lines.lines(entry, self._config.swap_on),
        )

    def _fusion(self, index: int) -> int:
        """The group in which the gradients of a layer are reduced (mindformers 1.9.0, set_communication_fusion)."""
        pipeline = self._config.pipeline
        if pipeline.num_stages > 1:
            return 2
        layers_per_group = max((len(self._stages.places) + 1) // pipeline.gradient_aggregation_group, 1)
        return index // layers_per_group + 1
