"""Build the real network of a family and compile its training graph on the CPU [mindspore, mindformers]."""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import os
import re
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore
import numpy
from catalog_cases import BATCH, SEQUENCE, Config, FamilyCase
from catalog_graph import TAG, Facts, read_facts
from mindformers.core.context import build_context, is_legacy_model
from mindformers.parallel_core.process_group_config import ModelCommProcessGroups
from mindformers.parallel_core.training_graph.tensor_parallel.layers import RowParallelLinear
from mindformers.parallel_core.transformer_config import MLATransformerConfig, TransformerConfig
from mindspore import ParameterTuple, Tensor, nn, ops
from mindspore.communication import GlobalComm

_MISSING = object()


@functools.cache  # families of one process are of one kind
def prepare(*, legacy: bool) -> None:
    """Once per process: mindformers reads the kind of model from its global context."""
    os.environ["RUN_MODE"] = "train"
    # Only the IR that the backend receives; dumping every pass takes longer than compiling.
    os.environ["MS_DEV_DUMP_IR_PASSES"] = "backend_pass"
    # The values of the weights do not matter, so do not draw them.
    mindspore.common.initializer.Normal._initialize = lambda self, array: None
    _add_communication()
    build_context(
        {
            "use_legacy": legacy,
            "run_mode": "train",
            "use_parallel": False,
            "context": {"mode": 0, "device_target": "CPU"},
            "parallel": {},
            "parallel_config": {},
        }
    )


def _add_communication() -> None:
    """Build row-parallel layers as with model_parallel > 1: the product of the partitions is then reduced.

    Real trainings shard their layers, and only such layers have communication primitives. Shapes stay those of one
    rank, so that the graph compiles without a second one.
    """
    make = RowParallelLinear.__init__

    @functools.wraps(make)
    def make_with_communication(self: Any, *args: Any, config: Any, **kwargs: Any) -> None:
        two_ranks = copy.copy(config)
        two_ranks.tensor_model_parallel_size = 2
        make(self, *args, config=two_ranks, **kwargs)
        self.input_size_per_partition *= 2

    RowParallelLinear.__init__ = make_with_communication
    group = types.SimpleNamespace(tp=types.SimpleNamespace(group=GlobalComm.WORLD_COMM_GROUP))
    ModelCommProcessGroups.use_parallel_state_groups = staticmethod(lambda required_groups: group)


def default_of(case: FamilyCase, keys: Sequence[str]) -> Any:
    """The value mindformers takes when a model_config has none of the keys."""
    sources = [_load(case.config)()] + ([] if case.legacy else [MLATransformerConfig, TransformerConfig])
    values = (_attribute(source, key) for source, key in itertools.product(sources, keys))
    return next((value for value in values if value is not _MISSING), None)


def has(case: FamilyCase) -> bool:
    """Whether this mindformers has the model."""
    module, _, _ = case.model.partition(":")
    package = module.partition(".")[0]
    return importlib.util.find_spec(f"mindformers.models.{package}") is not None


def build(case: FamilyCase, overrides: Config) -> nn.Cell:
    """The training network of one variant."""
    network = _load(case.model)(_load(case.config)(**{**case.tiny, **overrides}))
    for _, cell in network.cells_and_names():
        if case.rotary_batch and hasattr(cell, "swap_mask"):
            # The CPU refuses to broadcast a batch matrix product; the shape of this constant changes no operator.
            mask = cell.swap_mask
            cell.swap_mask = Tensor(numpy.zeros((*case.rotary_batch, *mask.shape[-2:])), mask.dtype)
    return network


def layer_at(network: nn.Cell, path: str) -> nn.Cell:
    cell = network
    for part in path.split("."):
        cell = cell[int(part)] if part.isdigit() else getattr(cell, part)
    return cell


def primitives(cell: nn.Cell, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every primitive below a cell, by attribute path."""
    for name, primitive in cell._primitives.items():
        if primitive is not None:
            yield prefix + name, primitive
    for name, child in cell._cells.items():
        if child is not None:
            yield from primitives(child, f"{prefix}{name}.")


def shared_primitives(network: nn.Cell, templates: dict[str, str]) -> set[str]:
    """Paths of primitives that are one object in several layers: a flag set in one layer acts in all of them."""
    lists = {path.rpartition(".")[0] for path in templates.values()}
    layers = [layer for path in lists for layer in layer_at(network, path)]
    holders = Counter(number for layer in layers for number in {id(primitive) for _, primitive in primitives(layer)})
    return {
        path
        for layer in templates.values()
        for path, primitive in primitives(layer_at(network, layer))
        if holders[id(primitive)] > 1
    }


def compile_facts(network: nn.Cell, templates: dict[str, str], dump: Path) -> Facts:
    """Flag every primitive of the named layers for offload, compile forward and gradient, read the IR.

    A tag of its own also keeps MindSpore from merging equal nodes of two primitives (the input Reshapes of
    wq, wk and wv), which it does not merge either when only one of them is flagged.
    """
    owners = _tag(network, templates)
    shared = shared_primitives(network, templates)
    scopes = {name: _scope_pattern(path) for name, path in templates.items()}

    def owner_of(tag: int, scope: str) -> tuple[str, str] | None:
        # Passes drop the scope of some nodes, so only a primitive shared by several layers relies on it.
        return next((site for site in owners[tag] if site[1] not in shared or scopes[site[0]].search(scope)), None)

    mindspore.set_context(save_graphs=2, save_graphs_path=str(dump))
    error = _compile(network)
    dumps = list(dump.glob("[0-9]*_backend_pass_*.ir"))
    if len(dumps) != 1:
        raise RuntimeError(f"{len(dumps)} dumps of the backend pass: the front end did not finish") from error
    return read_facts(dumps[0].read_text(encoding="utf-8"), owner_of)


def _attribute(source: Any, key: str) -> Any:
    """A dot leads into a nested section."""
    return functools.reduce(lambda value, part: getattr(value, part, _MISSING), key.split("."), source)


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(f"mindformers.models.{module}"), name)


def _tag(network: nn.Cell, templates: dict[str, str]) -> list[list[tuple[str, str]]]:
    """Number and flag every primitive object; by number, the sites (template, path) that hold it."""
    numbers: dict[int, int] = {}
    owners: list[list[tuple[str, str]]] = []
    for name, layer in templates.items():
        for path, primitive in primitives(layer_at(network, layer)):
            number = numbers.setdefault(id(primitive), len(owners))
            if number == len(owners):
                owners.append([])
                primitive.add_prim_attr(TAG, number)
                primitive._offload(backward_prefetch=1)
            owners[number].append((name, path))
    return owners


def _scope_pattern(path: str) -> re.Pattern[str]:
    """Scopes name a cell by attribute and class: ``model-GPTModel/decoder-TransformerBlock/...``."""
    return re.compile("/" + "/".join(rf"{part}-\w+" for part in path.split(".")) + "/")


class _LazyInline(nn.Cell):
    """The offload pass acts only inside a lazy_inline cell; mindformers makes the whole model one."""

    @mindspore.lazy_inline
    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, tokens: Tensor, loss_mask: Tensor, legacy: bool) -> Tensor:
        if legacy:
            return self.network(input_ids=tokens, labels=tokens)
        return self.network(input_ids=tokens, labels=tokens, loss_mask=loss_mask, position_ids=tokens)


class _Gradient(nn.Cell):
    def __init__(self, network: nn.Cell, legacy: bool) -> None:
        super().__init__()
        self.network = network
        self.legacy = legacy
        self.weights = ParameterTuple(network.trainable_params())
        self.gradient = ops.GradOperation(get_by_list=True)

    def construct(self, tokens: Tensor, loss_mask: Tensor) -> Tensor:
        return self.gradient(self.network, self.weights)(tokens, loss_mask, self.legacy)


def _compile(network: nn.Cell) -> RuntimeError | None:
    legacy = is_legacy_model()
    network.set_train()
    cell = _Gradient(_LazyInline(network), legacy).set_train()
    tokens = Tensor(numpy.zeros((BATCH, SEQUENCE)), mindspore.int32)
    loss_mask = Tensor(numpy.ones((BATCH, SEQUENCE)), mindspore.float32)
    try:
        cell.compile(tokens, loss_mask)
    except RuntimeError as error:
        # The CPU has no FlashAttention kernel: the backend refuses the graph that the front end has finished.
        return error
    return None
