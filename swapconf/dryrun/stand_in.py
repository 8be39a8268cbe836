"""SETTINGS -> COLUMNS: what the data set of a training gives the model, so that a dry run can stand in for it.

Lengths follow the models of mindformers 1.9.0: a legacy Llama cuts the last token off what it is given
(``LlamaForCausalLM.construct``), unless labels come with it and ``input_sliced_sig`` says that they are cut already;
GLM and mcore models take their inputs as they are. Without a length mcore models have 4096 (``TransformerConfig``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_MCORE_LENGTH = 4096
_LEGACY_LENGTH = 1024
_MCORE_COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")
_EOD_LENGTH = 128  # of actual_seq_len (mindformers 1.9.0, GPTDatasetConfig.eod_pad_length)
_KINDS = {"loss_mask": "float32", "attention_mask": "uint8"}
_AS_GIVEN = ("ChatGLM", "GLM")  # how the names of classes begin whose inputs are not cut
_LONGEST_MASK = 16384  # a row of a square mask beyond that takes more than this machine's memory is for


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """``argument``: of the model, "" for a column that it does not take. ``kind``: numpy's name of the type. ``shape``:
    of one sample."""

    name: str
    argument: str
    kind: str
    shape: tuple[int, ...]


def columns(settings: Mapping[str, Any], *, legacy: bool) -> tuple[Column, ...]:
    """The columns of the data set in the order in which the model takes them; of a data set that names none those that
    models of this kind have. ``settings``: the training YAML as plain values."""
    model, sizes = section(settings, "model"), section(section(settings, "model"), "model_config")
    data = section(settings, "train_dataset")
    loader = section(section(data, "data_loader"), "config")
    names = names_of(data.get("input_columns")) or (("input_ids",) if legacy else of_megatron(loader))
    arguments = names_of(data.get("construct_args_key")) or names
    told = [sizes.get("seq_length"), sizes.get("max_position_embeddings") if legacy else None, loader.get("seq_length")]
    length = length_of(*told, default=_LEGACY_LENGTH if legacy else _MCORE_LENGTH)
    if (
        legacy
        and not str(section(model, "arch").get("type")).startswith(_AS_GIVEN)
        and not (len(names) > 1 and sizes.get("input_sliced_sig"))
    ):
        length += 1
    square = not legacy and length <= _LONGEST_MASK
    return tuple(
        column(name, argument, length, loader, has_square_mask=square)
        for name, argument in zip_longest(names, arguments[: len(names)], fillvalue="")
        if name != "attention_mask" or legacy or square
    )


def column(name: str, argument: str, length: int, loader: Mapping[str, Any], *, has_square_mask: bool = True) -> Column:
    """One of samples of ``length`` tokens. ``loader``: how the data loader makes it."""
    shapes = {
        "actual_seq_len": (length_of(loader.get("eod_pad_length"), default=_EOD_LENGTH),),
        "attention_mask": (1, length, length) if has_square_mask else (length,),
    }
    return Column(name=name, argument=argument, kind=_KINDS.get(name, "int32"), shape=shapes.get(name, (length,)))


def of_megatron(loader: Mapping[str, Any]) -> tuple[str, ...]:
    """What a Megatron data set has. Source: mindformers 1.9.0, BaseTrainer._get_columns_with_strategy."""
    if loader.get("create_compressed_eod_mask"):
        return (*_MCORE_COLUMNS, "actual_seq_len")
    return (*_MCORE_COLUMNS, "attention_mask") if loader.get("create_attention_mask") else _MCORE_COLUMNS


def section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def names_of(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def length_of(*told: Any, default: int = _MCORE_LENGTH) -> int:
    """The first of several values that is a length."""
    return next(filter(None, map(_length, told)), default)


def _length(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
