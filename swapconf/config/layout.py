"""DOCUMENT -> LAYOUT: how a PyNative run shares out its batch, its parameters and its experts.

Source: mindformers 2.0.0 and 2.1.0, pynative/config/config.py, ParallelismConfig and TrainingConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.config.nodes import Document
from swapconf.words.findings import Origin

EXPERTS = ("n_routed_experts", "num_experts", "num_moe_experts")  # what a model calls how many a layer has
_CARDS_OF_A_NODE = 8
_LAYERS = "parallelism.pipeline_parallel_layers_per_stage"
_SECTIONS = ("parallelism", "training", "model", "optimizer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What `parallelism` and `training` say beside the degrees of a `Pipeline`; None: not told, or not usable.

    ``shards``: ranks that share out the parameters; None where they are as many as the cards give (any negative
    number). ``dense_shards``: the same of what is no expert. ``experts``: ranks that share out the experts, and
    ``spares_copies``: tokens are sent once to a node of ``cards_of_a_node``. ``method``: of context parallelism,
    ``ulysses``: the ranks that exchange heads for it. ``chunks``: of layers a stage has; ``deals_evenly``: as
    mindformers does where ``layers_per_stage`` are not listed, ``deals_nothing``: their key is null. ``samples`` of a
    step, ``samples_at_once`` of a rank; None without a section `training`. ``optimizer``: its type, "" where it is not
    told.
    """

    shards: int | None = None
    dense_shards: int | None = None
    experts: int = 1
    spares_copies: bool = False
    cards_of_a_node: int = _CARDS_OF_A_NODE
    method: str = "colossal"
    ulysses: int | None = None
    is_async: bool = False
    chunks: int = 1
    deals_evenly: bool = True
    deals_nothing: bool = False
    layers_per_stage: tuple[str, ...] | None = None
    samples: int | None = None
    samples_at_once: int | None = None
    optimizer: str = ""


def read(document: Document) -> Layout:
    def value(path: str) -> object:
        entry = document.entry_at(path)
        return entry.value.plain() if entry is not None else None

    def count(key: str, otherwise: int | None = None, section: str = "parallelism") -> int | None:
        found = value(f"{section}.{key}")
        if found is None:
            return otherwise
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    shards, listed = count("data_parallel_shard"), value(_LAYERS)
    is_there = document.entry_at(_LAYERS) is not None
    texts = listed if isinstance(listed, list) and all(isinstance(one, str) for one in listed) else None
    otherwise = 1 if document.root.get("training") is not None else None
    return Layout(
        shards=shards if shards is not None and shards >= 0 else None,
        dense_shards=count("dense_fsdp_shard_size"),
        experts=count("expert_parallel", 1) or 1,
        spares_copies=value("parallelism.moe_token_dispatcher_type") == "alltoall_deredundancy",
        cards_of_a_node=count("npu_nums_per_device", _CARDS_OF_A_NODE) or _CARDS_OF_A_NODE,
        method=str(value("parallelism.context_parallel_method") or "colossal").lower(),
        ulysses=count("ulysses_degree_in_cp"),
        is_async=value("parallelism.context_parallel_async") is True,
        chunks=count("pipeline_parallel_interleave_num", 1) or 1,
        deals_evenly=listed == "auto" or not is_there,
        deals_nothing=listed is None and is_there,
        layers_per_stage=None if texts is None else tuple(texts),
        samples=count("global_batch_size", otherwise, "training"),
        samples_at_once=count("local_batch_size", otherwise, "training"),
        optimizer=str(value("optimizer.type") or ""),
    )


def origins(document: Document) -> dict[str, Origin]:
    """Where each key of the sections that rules point at stands."""
    found = ((name, document.entry_at(name)) for name in _SECTIONS)
    return {
        f"{name}.{key}": document.key_origin(inner, f"{name}.{key}")
        for name, entry in found
        if entry is not None
        for key, inner in entry.value.entries.items()
    }
