"""What the catalog covers: per family, a tiny configuration of the real model and the switches that change its layers.

Pure data, no mindspore. ``catalog_legacy.py`` and ``catalog_mcore.py`` hold the families, ``build_families.py``
builds every variant of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
BATCH, SEQUENCE, HEADS = 2, 64, 4


@dataclass(frozen=True, kw_only=True)
class VariantCase:
    """``build``: what differs from the family's configuration. ``when``: other ways to ask for the same layers."""

    build: Config
    when: tuple[Config, ...] = ()

    @property
    def alternatives(self) -> tuple[Config, ...]:
        return tuple({**self.build, **other} for other in self.when) or (self.build,)


@dataclass(frozen=True, kw_only=True)
class FamilyCase:
    """One family of models whose decoder layers come from the same cells.

    ``config``, ``model``: real classes, ``module:Class`` below ``mindformers.models``.
    ``templates``: template name -> dotted path of a typical layer (not the first or last) in the built network.
    ``switches``: key of model_config -> (kind, other keys that mean the same); see ``swapconf.models.family.Switch``.
    ``layout``: number of layers and which template each layer has; see ``swapconf.models.family.Layout``.
    ``rotary_batch``: leading dimensions of what a legacy model multiplies by the constant of its rotary embedding.
    """

    name: str
    title: str
    legacy: bool
    config: str
    model: str
    identify: dict[str, list[str]]
    flash_attention: str
    tiny: Config
    templates: dict[str, str]
    switches: Mapping[str, tuple[str, ...]]
    layout: dict[str, Any]
    variants: tuple[VariantCase, ...]
    rotary_batch: tuple[int, int] | None = None
