"""DOCUMENT + FOLD -> DOCUMENT: the same YAML for fewer layers, with every list of layers rewritten for those kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swapconf.config import Config, EveryLayer, LayerCounts, LayerIndices, LayerSelection, SelectRecompute
from swapconf.formats.nodes import Document, from_plain
from swapconf.formats.surroundings import NUM_LAYERS
from swapconf.phrases import phrase
from swapconf.rehearsal.folding import CannotFold
from swapconf.resolve.requests import stage_map
from swapconf.resolve.stages import StageMap

_LISTS = {"select_recompute": "select", "select_comm_recompute": "select_comm",
          "select_recompute_exclude": "select_exclude", "select_comm_recompute_exclude": "select_comm_exclude"}


def with_fewer_layers(document: Document, config: Config, kept: Sequence[int]) -> Document:
    """The YAML for the layers ``kept``. Raises CannotFold where it has more than layer lists that count layers."""
    settings: Any = document.root.plain()
    model = settings["model"]["model_config"]
    key = next((name for name in NUM_LAYERS if type(model.get(name)) is int), None)
    if key is None or config.model.num_layers is None:
        raise CannotFold(phrase("the number of layers is not in model.model_config"))
    listed = [name for name, value in model.items() if isinstance(value, list) and len(value) == model[key]]
    if listed:
        raise CannotFold(phrase("model.model_config.{key} has one item for each layer", key=listed[0]))
    rewrite = _Rewrite(config, kept, stage_map(config, config.model.num_layers))
    changed = {name: {**settings[name], **rewrite.section(settings[name])}
               for name in ("swap_config", "recompute_config") if isinstance(settings.get(name), dict)}
    model_config = {**model, **rewrite.section(model), key: len(kept)}
    return from_plain({**settings, **changed, "model": {**settings["model"], "model_config": model_config}}, document)


class _Rewrite:
    def __init__(self, config: Config, kept: Sequence[int], stages: StageMap) -> None:
        self._config, self._kept, self._stages = config, kept, stages
        self._new = {old: new for new, old in enumerate(kept)}

    def section(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a section that list layers, rewritten."""
        recompute = self._config.recompute
        changed = {key: self._entries(section[key]) for key in ("layer_swap", "op_swap", "cpu_offloading_num_layers")
                   if isinstance(section.get(key), list)}
        if isinstance(section.get("recompute"), list) and recompute.full is not None:
            changed["recompute"] = self._selection(recompute.full.layers)
        for key, name in _LISTS.items():
            if (value := self._named(section.get(key), getattr(recompute, name))) is not None:
                changed[key] = value
        return changed

    def _entries(self, value: list[Any]) -> list[Any]:
        return [{**entry, "layers": self._indices(entry["layers"])}
                if isinstance(entry, dict) and isinstance(entry.get("layers"), list) else entry for entry in value]

    def _indices(self, value: list[Any]) -> list[Any]:
        return [self._indices(item) if isinstance(item, list) else self._new[item]
                for item in value if isinstance(item, list) or item in self._new]

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
        chosen = self._stages.selected(layers).intersection(self._kept)
        places = [self._stages.places[index] for index in chosen]
        rows = [[places.count((interleave, stage)) for stage in range(self._config.pipeline.num_stages)]
                for interleave in range(self._config.pipeline.num_interleaves)]
        return rows if layers.per_interleave or len(rows) > 1 else rows[0]
