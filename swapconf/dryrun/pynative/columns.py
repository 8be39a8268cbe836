"""SETTINGS -> COLUMNS of a PyNative training's data set. Source: mindformers 2.0.0, pynative/trainer/utils.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swapconf.dryrun.stand_in import Column, column, length_of, names_of, of_megatron, section


def columns(settings: Mapping[str, Any]) -> tuple[Column, ...]:
    """Those that the data loader names, else those that it makes. ``settings``: the YAML as plain values."""
    loader = section(section(settings, "train_dataset"), "dataloader")
    making, model = section(loader, "config"), section(settings, "model")
    names = names_of(loader.get("column_names")) or of_megatron(making)
    length = length_of(model.get("seq_length"), making.get("seq_length"), model.get("max_position_embeddings"))
    return tuple(column(name, name, length, making) for name in names)
