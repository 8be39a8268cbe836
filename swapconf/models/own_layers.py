"""LAYERS <-> layers.json: the operators of each decoder layer of a model that the catalog does not know.

A dry run of it reads them from the real cells, and what they do from the graph that MindSpore compiles of them.

A trace without swap and recompute has the file beside it, so that what is asked of the trace finds its operators.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swapconf.files import json_object
from swapconf.files.writing import replace_text
from swapconf.models.network import LayerTemplate, Operator

FILE = "layers.json"
_FORM = 1  # of the file; raised whenever something in it changes its meaning
_MAX_LAYERS = 1_000


@dataclass(frozen=True, kw_only=True)
class OwnLayers:
    """``templates``: by global index. ``called``: by the name of a node of the run's graph, the attribute of its cell
    that it is a call of, where the cell has several primitives of one type."""

    templates: Mapping[int, LayerTemplate]
    called: Mapping[str, str] = field(default_factory=dict)

    def of_model(self, num_layers: int) -> tuple[LayerTemplate, ...]:
        """One for each layer: of a run with fewer layers that are all equal, the others are like them. Empty where
        there is a layer of which nothing is known."""
        alike = next(iter(self.templates.values())) if len({*self.templates.values()}) == 1 else None
        found = [self.templates.get(index, alike) for index in range(num_layers)]
        known = tuple(template for template in found if template is not None)
        return known if len(known) == num_layers else ()


class LayersRead:
    """The layers of a process, as it reads them one after the other; the file always has those that are known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._layers: dict[int, LayerTemplate] = {}

    def add(self, index: int, template: LayerTemplate) -> None:
        """``index``: global. Raises OSError."""
        self._layers[index] = template
        write(OwnLayers(templates=self._layers), self._path)


def write(layers: OwnLayers, path: Path) -> None:
    """Raises OSError."""
    templates = list(dict.fromkeys(layers.templates.values()))
    number = {template: place for place, template in enumerate(templates)}
    content = {
        "form": _FORM,
        "layers": {str(index): number[template] for index, template in sorted(layers.templates.items())},
        "templates": [_as_record(template) for template in templates],
        "called": dict(layers.called),
    }
    replace_text(path, json.dumps(content))


def read(folder: Path) -> OwnLayers | None:
    """None where a folder has no such file, or not one of this form."""
    content = json_object.read(folder / FILE)
    try:
        if content.get("form") != _FORM:
            return None
        templates = [_template(place, item) for place, item in enumerate(content["templates"])]
        found = {int(index): templates[place] for index, place in content["layers"].items()}
        called = {str(name): str(attribute) for name, attribute in content["called"].items()}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None
    return OwnLayers(templates=found, called=called) if all(0 <= index < _MAX_LAYERS for index in found) else None


def _as_record(template: LayerTemplate) -> dict[str, Any]:
    return {"cell": template.cell, "operators": [list(_row(operator)) for operator in template.operators]}


def _row(operator: Operator) -> tuple[Any, ...]:
    known = operator.preset_recompute, operator.executed, operator.saved
    return operator.path, operator.kind, operator.type, *known, list(operator.consumers)


def _template(place: int, record: Mapping[str, Any]) -> LayerTemplate:
    """Its name tells templates of one class apart."""
    operators = tuple(_operator(*row) for row in record["operators"])
    return LayerTemplate(name=f"own{place}" if place else "own", cell=str(record["cell"]), operators=operators)


def _operator(path: Any, kind: Any, name: Any, preset: Any, executed: Any, saved: Any, consumers: Any) -> Operator:
    return Operator(
        path=str(path),
        kind="cell" if kind == "cell" else "primitive",
        type=str(name),
        preset_recompute=_flag(preset),
        executed=_flag(executed),
        saved=_flag(saved),
        consumers=tuple(map(str, consumers)),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
