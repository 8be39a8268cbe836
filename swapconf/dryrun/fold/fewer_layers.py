"""DOCUMENT + FOLD -> DOCUMENT: the same YAML for fewer layers, with every list of layers rewritten for those kept.

Each stage keeps its own number of layers, so the ``offset`` from the even share is rewritten, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swapconf.config.config import Config, EveryLayer, LayerCounts, LayerIndices, LayerSelection, SelectRecompute
from swapconf.config.nodes import Document, from_plain
from swapconf.config.surroundings import NUM_LAYERS
from swapconf.decide.requests import stage_map
from swapconf.decide.stages import StageMap
from swapconf.dryrun.fold.folding import CannotFold
from swapconf.words.phrases import phrase

_OFFSET, _DENSE_FIRST, _HUGGING_FACE = "offset", "first_k_dense_replace", "num_hidden_layers"
_LISTS = {
    "select_recompute": "select",
    "select_comm_recompute": "select_comm",
    "select_recompute_exclude": "select_exclude",
    "select_comm_recompute_exclude": "select_comm_exclude",
}


def with_fewer_layers(document: Document, config: Config, kept: Sequence[int]) -> Document:
    """The YAML for the layers ``kept``. Raises CannotFold where it has more than layer lists that count layers."""
    if config.model.num_layers is None or len(kept) == config.model.num_layers:
        return document
    settings: Any = document.root.plain()
    model = _model_config(settings)
    listed = [
        name
        for name, value in model.items()
        if isinstance(value, list) and name != _OFFSET and len(value) == config.model.num_layers
    ]
    if listed:
        raise CannotFold(phrase("model.model_config.{key} has one item for each layer", key=listed[0]))
    rewrite = _Rewrite(config, kept, stage_map(config, config.model.num_layers))
    changed = {
        name: {**settings[name], **rewrite.section(settings[name])}
        for name in ("swap_config", "recompute_config")
        if isinstance(settings.get(name), dict)
    }
    model_config = {**model, **rewrite.section(model), **rewrite.sizes(model)}
    return from_plain({**settings, **changed, "model": {**settings["model"], "model_config": model_config}}, document)


def _model_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    section = settings.get("model")
    model = section.get("model_config") if isinstance(section, dict) else None
    if not isinstance(model, dict):
        raise CannotFold(phrase("the number of layers is not in model.model_config"))
    return model


class _Rewrite:
    def __init__(self, config: Config, kept: Sequence[int], stages: StageMap) -> None:
        self._config, self._kept, self._stages = config, kept, stages
        self._new = {old: new for new, old in enumerate(kept)}

    def sizes(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """How many layers there are, how many of them are dense, and how they are dealt to stages. A model from a
        Hugging Face folder has none of it in the YAML, which counts before that folder."""
        key = next((name for name in NUM_LAYERS if type(model.get(name)) is int), _HUGGING_FACE)
        changed: dict[str, Any] = {key: len(self._kept)}
        dense = self._config.model.settings.get(_DENSE_FIRST)
        if type(dense) is int:
            changed[_DENSE_FIRST] = sum(index < dense for index in self._kept)
        pipeline = self._config.pipeline
        parts = pipeline.num_stages * pipeline.num_interleaves
        if parts > 1:
            rows = [[number - len(self._kept) // parts for number in row] for row in self._per_share(self._kept)]
            if pipeline.zero_bubble_v and len(rows) > 1:
                rows[1].reverse()
            changed[_OFFSET] = rows if len(rows) > 1 else rows[0]
        return changed

    def section(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a section that list layers, rewritten."""
        recompute = self._config.recompute
        changed = {
            key: self._entries(section[key])
            for key in ("layer_swap", "op_swap", "cpu_offloading_num_layers")
            if isinstance(section.get(key), list)
        }
        if isinstance(section.get("recompute"), list) and recompute.full is not None:
            changed["recompute"] = self._selection(recompute.full.layers)
        for key, name in _LISTS.items():
            if (value := self._named(section.get(key), getattr(recompute, name))) is not None:
                changed[key] = value
        return changed

    def _entries(self, value: list[Any]) -> list[Any]:
        return [
            {**entry, "layers": self._indices(entry["layers"])}
            if isinstance(entry, dict) and isinstance(entry.get("layers"), list)
            else entry
            for entry in value
        ]

    def _indices(self, value: list[Any]) -> list[Any]:
        return [
            self._indices(item) if isinstance(item, list) else self._new[item]
            for item in value
            if isinstance(item, list) or item in self._new
        ]

    def _named(self, value: Any, entries: Sequence[SelectRecompute]) -> Any:
        """None where nothing has to be rewritten: a switch, or a list of names."""
        if isinstance(value, dict):
            layers = {entry.pattern: self._selection(entry.layers) for entry in entries}
            return {pattern: layers.get(pattern, given) for pattern, given in value.items()}
        if isinstance(value, list) and entries and all(entry.builtin for entry in entries):
            return self._selection(entries[0].layers)
        return None

    def _selection(self, layers: LayerSelection) -> Any:
        if isinstance(layers, EveryLayer):
            return True
        if isinstance(layers, LayerIndices):
            return [self._new[index] for index in layers.indices if index in self._new]
        return self._counts(layers)

    def _counts(self, layers: LayerCounts) -> list[Any]:
        """What is left of each share's first layers."""
        rows = self._per_share(self._stages.selected(layers).intersection(self._kept))
        return rows if layers.per_interleave or len(rows) > 1 else rows[0]

    def _per_share(self, layers: Iterable[int]) -> list[list[int]]:
        """How many of some layers each stage of each interleave has."""
        places = Counter(self._stages.places[index] for index in layers)
        return [
            [places[interleave, stage] for stage in range(self._config.pipeline.num_stages)]
            for interleave in range(self._config.pipeline.num_interleaves)
        ]
