"""LAYOUT -> KEYS -> TEXT: what a YAML says for another layout; every other byte stays.

What hangs together is set together: how data is cut (``dataset_strategy``, where ``full_batch`` is False),
micro-batches or accumulation, ``offset``, the interleave with its ``pipeline_config`` (without it MindSpore takes one
schedule), and ``vocab_emb_dp``, which mindformers turns off with stages (core/parallel_config.py:63 of 1.9.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from swapconf.config import base_config
from swapconf.config.nodes import Node
from swapconf.config.overrides import changed
from swapconf.config.rewriting import CannotRewrite, refuse_elsewhere
from swapconf.config.yaml_edits import with_keys
from swapconf.config.yaml_text import dump_inline
from swapconf.layout.layout import ACCUMULATION, MICRO_BATCHES, Deal, Layout, first_given, layout_of, plain
from swapconf.study.study import Study
from swapconf.upstream.conditional import (
    CONTEXTS,
    DATA,
    EXPERTS,
    INTERLEAVE,
    SCHEDULE,
    SCHEDULER,
    SCHEDULERS,
    SHARDS_OPTIMIZER,
    STAGES,
    TENSORS,
)
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase

_MODEL = "model.model_config."
_SEQUENCE = ("parallel_config.use_seq_parallel", "parallel_config.sequence_parallel")
_INTERLEAVE = (f"{_MODEL}pp_interleave_num", f"{_MODEL}virtual_pipeline_model_parallel_size")
_BATCH, _BATCH_OF_MODEL = "runner_config.batch_size", f"{_MODEL}batch_size"
_CUT, _OFFSET = "parallel.dataset_strategy", f"{_MODEL}offset"
_VOCABULARY = "parallel_config.vocab_emb_dp"
_STEP = re.compile(r"([^.\[\]]+)(?![^\[]*\])|\[(\d+)\]")  # a key, or the number of an item

Keys = Mapping[str, Any]


def keys(study: Study, layout: Layout) -> Keys:
    """By path, what the YAML has to say otherwise; nothing for its own layout."""
    own = layout_of(study)
    if layout == own:
        return {}
    wanted = dict(_wanted(study, own, layout))
    aliases = _aliases(study.document.text, study.document.file)
    followed = {other: value for path, value in wanted.items() for other in aliases.get(path, ()) if "[" not in other}
    wanted |= {path: value for path, value in followed.items() if path not in wanted}  # anchors first
    return {path: value for path, value in wanted.items() if not _says(study, path, value)}


def changes(study: Study, layout: Layout) -> tuple[str, ...]:
    """The same as ``A.B.C=VALUE`` each."""
    return _as_changes(keys(study, layout))


def _as_changes(new: Keys) -> tuple[str, ...]:
    return tuple(f"{path}={dump_inline(value)}" for path, value in new.items())


def write(text: str, study: Study, layout: Layout) -> str:
    """The text of the study's YAML with another layout in it. Raises CannotRewrite."""
    document = study.document
    hint = phrase("an anchor, a merge key or an included file may reach into them: write their values out")
    new, aliases = keys(study, layout), _aliases(text, document.file)
    wanted: Any = changed(document, _as_changes(new)).root.plain()
    for path, value in new.items():
        for other in aliases.get(path, ()):
            _put(wanted, other, value)
    again = document
    try:
        for section, inside in _by_section(new).items():
            # what is written through an anchor, as of `data_parallel` in `dataset_strategy`, is said already
            missing = {
                key: value for key, value in inside.items() if not _is(plain(again, ".".join((*section, key))), value)
            }
            text = with_keys(text, section, missing)
            again = base_config.of_text(text, document.file)
    except (yaml.YAMLError, SwapconfError):
        raise CannotRewrite(phrase("the rewritten keys would not be readable"), hint) from None
    if again.root.plain() != wanted:
        refuse_elsewhere(document)
        raise CannotRewrite(phrase("the rewritten keys would not give this layout"), hint)
    return text


@lru_cache(maxsize=4)
def _aliases(text: str, file: str) -> Mapping[str, tuple[str, ...]]:
    """By path of a value, where else the text has it by its anchor: ``a.b[0]`` of an item of a list. What a merge key
    brings is no other place of it."""
    places: dict[Node, dict[object, str]] = {}  # an alias is the very node of its anchor
    root = base_config.of_text(text, file).root if text else Node("mapping", 0, 0)
    waiting: list[tuple[str, object, Node]] = [("", "", root)]
    while waiting:
        path, place, node = waiting.pop()
        places.setdefault(node, {}).setdefault(place, path)
        waiting += [(inner := f"{path}[{index}]", inner, item) for index, item in enumerate(node.items)]
        waiting += [
            (f"{path}.{key}".lstrip("."), (entry.line, entry.column), entry.value)
            for key, entry in node.entries.items()
        ]
    shared = [list(paths.values()) for paths in places.values() if len(paths) > 1]
    return {one: tuple(other for other in paths if other != one) for paths in shared for one in paths}


def _put(values: Any, path: str, value: Any) -> None:
    *way, last = [int(index) if index else key for key, index in _STEP.findall(path)]
    for step in way:
        values = values[step]
    values[last] = value


def _is(given: object, value: object) -> bool:
    """A number is not the switch that equals it."""
    return type(given) is type(value) and given == value


def _by_section(new: Keys) -> dict[tuple[str, ...], dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for path, value in new.items():
        *section, key = path.split(".")
        found.setdefault(tuple(section), {})[key] = value
    return found


def _wanted(study: Study, own: Layout, layout: Layout) -> Iterator[tuple[str, Any]]:
    def name(paths: Sequence[str]) -> str:
        return first_given(study.document, paths)

    degrees = (
        (DATA, layout.data, own.data),
        (TENSORS, layout.tensors, own.tensors),
        (STAGES, layout.stages, own.stages),
        (CONTEXTS, layout.contexts, own.contexts),
        (EXPERTS, layout.experts, own.experts),
    )
    yield from ((name(paths), value) for paths, value, now in degrees if value != now)
    if layout.tensors > 1 or layout.is_sequence != own.is_sequence:  # with one card for tensors it may say anything
        yield name(_SEQUENCE), layout.is_sequence
    if layout.shards_optimizer != own.shards_optimizer:
        yield SHARDS_OPTIMIZER, layout.shards_optimizer
    if layout.batch != own.batch:
        yield _BATCH, layout.batch
        if plain(study.document, _BATCH_OF_MODEL) == plain(study.document, _BATCH):
            yield _BATCH_OF_MODEL, layout.batch
    has_stages = layout.stages > 1
    yield MICRO_BATCHES, layout.micro_batches if has_stages else 1
    yield ACCUMULATION, 1 if has_stages else layout.micro_batches
    yield from _cut(study, layout)
    yield from _dealt(study, own, layout, name(_INTERLEAVE))
    if plain(study.document, _VOCABULARY) is True and has_stages:
        yield _VOCABULARY, False


def _cut(study: Study, layout: Layout) -> Iterator[tuple[str, Any]]:
    """How the data is cut: the first number of each input is that of ``data``."""
    given = plain(study.document, _CUT)
    if plain(study.document, "parallel.full_batch") is False and isinstance(given, list):
        yield _CUT, [[layout.data, *one[1:]] if isinstance(one, list) and one else one for one in given]


def _dealt(study: Study, own: Layout, layout: Layout, interleave: str) -> Iterator[tuple[str, Any]]:
    if layout.deal != own.deal:
        yield _OFFSET, offset(layout.deal)
    if layout.interleaves == own.interleaves:
        return
    yield interleave, layout.interleaves
    given = plain(study.document, SCHEDULE)
    pipeline = dict(given) if isinstance(given, dict) else {}
    yield SCHEDULE, {**pipeline, INTERLEAVE: layout.interleaves > 1, SCHEDULER: SCHEDULERS[0]}


def offset(deal: Deal) -> int | list[int] | list[list[int]]:
    """Layers by stage more or less than the even share; see `decide.stages`."""
    even = sum(map(sum, deal)) // sum(map(len, deal))
    rows = [[count - even for count in row] for row in deal]
    if not any(map(any, rows)):
        return 0
    return rows[0] if len(rows) == 1 else rows


def _says(study: Study, path: str, value: Any) -> bool:
    """Whether a key, or its absence, says a value already."""
    given = plain(study.document, path)
    if given is None and path in _SEQUENCE:
        return value is False
    if given is None:
        return path in (MICRO_BATCHES, ACCUMULATION, _OFFSET, _BATCH_OF_MODEL) and value in (0, 1)
    return _is(given, value)
