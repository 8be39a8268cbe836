"""Build the real network of a family and compile its training graph on the CPU [mindspore, mindformers]."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore
import numpy
from catalog_cases import Config, FamilyCase
from catalog_graph import TAG, Facts, read_facts
from mindformers.core.context import build_context, is_legacy_model
from mindformers.parallel_core.transformer_config import MLATransformerConfig, TransformerConfig
from mindspore import ParameterTuple, Tensor, nn, ops

BATCH, SEQUENCE = 2, 64


def prepare(*, legacy: bool) -> None:
    """Once per process: mindformers reads the kind of model from its global context."""
    os.environ["RUN_MODE"] = "train"
    # Only the IR that the backend receives; dumping every pass takes longer than compiling.
    os.environ["MS_DEV_DUMP_IR_PASSES"] = "backend_pass"
    # The values of the weights do not matter, so do not draw them.
    mindspore.common.initializer.Normal._initialize = lambda self, array: None
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


def default_of(case: FamilyCase, keys: Sequence[str]) -> Any:
    """The value mindformers takes when a model_config has none of the keys."""
    sources = [_load(case.config)()] + ([] if case.legacy else [MLATransformerConfig, TransformerConfig])
    for source, key in itertools.product(sources, keys):
        try:
            return functools.reduce(getattr, key.split("."), source)
        except AttributeError:
            continue
    return None


def build(case: FamilyCase, overrides: Config) -> nn.Cell:
    """The training network of one variant."""
    network = _load(case.model)(_load(case.config)(**{**case.tiny, **overrides}))
    rotary = getattr(getattr(network, "model", None), "freqs_mgr", None)
    if rotary is not None and hasattr(rotary, "swap_mask"):
        # The CPU refuses to broadcast a batch matrix product; the shape of this constant changes no operator.
        mask = rotary.swap_mask
        heads = case.tiny["num_heads"]
        rotary.swap_mask = Tensor(numpy.zeros((BATCH, heads, *mask.shape)), mask.dtype)
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
    _compile(network)
    dumps = list(dump.glob("[0-9]*_backend_pass_*.ir"))
    if len(dumps) != 1:
        raise RuntimeError(f"expected one IR of the backend pass, found {len(dumps)}: the front end did not finish")
    return read_facts(dumps[0].read_text(encoding="utf-8"), owner_of)


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


def _compile(network: nn.Cell) -> None:
    legacy = is_legacy_model()
    network.set_train()
    cell = _Gradient(_LazyInline(network), legacy).set_train()
    tokens = Tensor(numpy.zeros((BATCH, SEQUENCE)), mindspore.int32)
    loss_mask = Tensor(numpy.ones((BATCH, SEQUENCE)), mindspore.float32)
    try:
        cell.compile(tokens, loss_mask)
    except RuntimeError:
        # The CPU has no FlashAttention kernel, so the backend refuses the graph the front end has finished.
        pass
