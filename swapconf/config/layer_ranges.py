"""TEXT <-> LAYERS: PyNative's layer ranges, ``['0-3', '8']``, both ends included."""

from __future__ import annotations

import re
from collections.abc import Iterable

from swapconf.words.phrases import phrase
from swapconf.words.units import runs

MAX_LAYER = 999  # far above any model; keeps a typo from costing memory
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class BadRange(ValueError):
    """The text names no layers; it says why."""


def parse(text: str) -> range:
    """The layers of one element: ``'5'`` or ``'0-19'``. Raises BadRange.

    Source of the form: mindformers 2.0.0, pynative/distributed/activation_checkpoint.py, _validate_layer_id_range.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise BadRange(phrase("expected a layer such as '5' or a range such as '0-19'"))
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        raise BadRange(
            phrase("the range starts after its end; '{first}-{last}' was probably meant", first=last, last=first)
        )
    if last > MAX_LAYER:
        raise BadRange(phrase("no model has a layer {layer}", layer=last))
    return range(first, last + 1)


def spell(layers: Iterable[int]) -> list[str]:
    """The layers as mindformers wants them: ascending, apart from each other, as few elements as possible."""
    return runs(layers)
