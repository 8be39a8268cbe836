"""NETWORK: the decoder layers of a model, the operators inside them and who reads whose output.

A *layer* is a decoder layer, named by its global index. An *operator* is a cell or a primitive inside a
layer, named by its dotted path from the layer (``attention.flash_attention``). MindSpore flags primitives,
so a *site* is a pair (layer, primitive).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

Kind = Literal["cell", "primitive"]
COMMUNICATION = frozenset({"AllReduce", "ReduceScatter", "AllGather", "AlltoAll"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """One cell or primitive inside a decoder layer.

    Attributes:
        path: Dotted path from the layer, made of attribute names.
        type: Class name of the cell or primitive.
        executed: The compiled training graph of the layer holds it (primitives only; None: not known).
        saved: A backward operator reads its output directly, which is the condition for a swap to move anything in
            MindSpore 2.9.0 (None: not known).
        preset_recompute: What the model itself flags.
        consumers: Paths of the forward primitives of the same layer that read its output.
    """

    path: str
    kind: Kind
    type: str
    executed: bool | None = None
    saved: bool | None = None
    preset_recompute: bool | None = None
    consumers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Last element of the path."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class LayerTemplate:
    """The operator tree of one kind of decoder layer; equal layers of a model share one template.

    Attributes:
        cell: Class name of the layer.
        operators: Every cell and primitive below it, a parent before its children, in the order the cell defines them.
        name: ``dense``, ``moe``, ``mtp``, ...
    """

    name: str
    cell: str
    operators: tuple[Operator, ...]

    def __hash__(self) -> int:
        """As templates are keys all over: cheap, and different for those of one model."""
        return hash((self.name, self.cell, len(self.operators)))

    @cached_property
    def by_path(self) -> dict[str, Operator]:
        return {operator.path: operator for operator in self.operators}

    @cached_property
    def primitives(self) -> tuple[Operator, ...]:
        return tuple(operator for operator in self.operators if operator.kind == "primitive")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer of a model.

    Attributes:
        index: Global, from 0.
        name: The index as text; an extra layer that shares the settings of the last one (multi-token prediction) has a
            name of its own, ``mtp0``.
        stage, interleave: Where the pipeline puts it.
    """

    index: int
    name: str
    template: LayerTemplate
    stage: int = 0
    interleave: int = 0


class NearModel(NamedTuple):
    """What an unknown model nearly is.

    Attributes:
        path: The key below `model` whose class ``written`` is not known.
        name: The known class that it resembles, or is itself.
        legacy: The kind of model that ``name`` is.
    """

    path: str
    written: str
    name: str
    legacy: bool


class UnknownModel(NamedTuple):
    """What makes an unknown model one.

    Attributes:
        path: The key below `model` that says so: code of the user's own, or a class; "" where it names nothing.
        written: The class, "" for none.
        beside: The class of the config that ``written`` does not fit, where both are known.
    """

    path: str
    written: str = ""
    beside: str = ""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The decoder layers of a model. ``family`` is None when the catalog does not know the model; the templates are
    then empty, or those that a run of it has read (`own_layers`). ``flash_attention``: the operator pattern of the
    family's flash attention.

    ``approximated``: settings of the model for which the catalog has no template of its own, so that the nearest one
    answers. ``made_with``: the mindformers whose cells the catalog read, "" for layers that are not from it. ``near``:
    what was probably meant where the family is None. ``unknown``: why it is. ``called``: see `own_layers.OwnLayers`.
    """

    family: str | None
    layers: tuple[Layer, ...]
    flash_attention: str = r".*\.flash_attention"
    approximated: tuple[str, ...] = ()
    made_with: str = ""
    near: NearModel | None = None
    unknown: UnknownModel | None = None
    called: Mapping[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def is_known(self) -> bool:
        """Whether its operators are: from the catalog, or from the layers of a run."""
        return self.family is not None or any(layer.template.operators for layer in self.layers)

    @cached_property
    def label(self) -> str:
        """What messages call the model: its family, or the cell of its first layer."""
        return self.family or self.layers[0].template.cell

    @cached_property
    def num_layers(self) -> int:
        return 1 + max((layer.index for layer in self.layers), default=-1)

    @cached_property
    def templates(self) -> tuple[LayerTemplate, ...]:
        """Each template once, in layer order."""
        return tuple(dict.fromkeys(layer.template for layer in self.layers))


def with_graph(template: LayerTemplate, templates: tuple[LayerTemplate, ...]) -> LayerTemplate:
    """``template``, as read from a real layer, with what the catalog knows of its graph; itself where nothing fits.

    Communication primitives are left aside: whether a layer has them depends on the tensor parallelism of the run.
    """
    for candidate in templates:
        if candidate.cell == template.cell and _computing(candidate) == _computing(template):
            twins = candidate.by_path
            operators = tuple(
                replace(
                    operator,
                    executed=twins[operator.path].executed,
                    saved=twins[operator.path].saved,
                    consumers=twins[operator.path].consumers,
                )
                if operator.path in twins
                else operator
                for operator in template.operators
            )
            return replace(template, name=candidate.name, operators=operators)
    return template


def for_ranks(template: LayerTemplate, model_parallel: int, sequence_parallel: bool) -> LayerTemplate:
    """The same layer on ranks that share tensors, or do not; itself where it has no communication primitives.

    mindformers 1.9.0, RowParallelLinear: collectives are there ``if self.tp != 1``; then both, and one of them is used.
    """
    if not any(operator.type in COMMUNICATION for operator in template.operators):
        return template
    idle = "AllReduce" if sequence_parallel else "ReduceScatter"
    return replace(
        template,
        operators=tuple(
            replace(operator, executed=False, saved=False, consumers=()) if operator.type == idle else operator
            for operator in template.operators
            if model_parallel > 1 or operator.type not in COMMUNICATION
        ),
    )


def _computing(template: LayerTemplate) -> set[str]:
    return {operator.path for operator in template.operators if operator.type not in COMMUNICATION}
