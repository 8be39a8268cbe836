"""What the catalog knows about a family of models: settings it depends on, the layers they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from swapconf.models.network import LayerTemplate

Kind = Literal["flag", "text", "given", "above_zero", "above_one"]
SwitchValue = bool | str

_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A value of ``model_config`` under the names mindformers accepts for it, and what it takes without any.

    A dot in a key leads into a nested section: ``moe_config.expert_num``.
    """

    keys: tuple[str, ...]
    default: object = None

    def read(self, model_config: Mapping[str, object]) -> object:
        """The first value under one of the keys, else None if a key stands there without any, else the default."""
        found = [_value(model_config, key) for key in self.keys]
        present = [value for value in found if value is not _ABSENT]
        return next((value for value in present if value is not None), None if present else self.default)

    def count(self, model_config: Mapping[str, object]) -> int:
        """The value as a number of things: none for an explicit null, the default for what is no number."""
        read = self.read(model_config)
        return 0 if read is None else _number(read, _number(self.default, 0))


@dataclass(frozen=True, kw_only=True)
class Switch(Setting):
    """A setting that changes the operators of a layer, reduced to what makes the difference."""

    kind: Kind

    def value(self, model_config: Mapping[str, object]) -> SwitchValue:
        read = self.read(model_config)
        if self.kind == "given":
            return read is not None
        if self.kind == "text":
            return read if isinstance(read, str) else str(self.default)
        if self.kind == "flag":
            return bool(read if read is None or isinstance(read, bool) else self.default)
        number = read if read is None or isinstance(read, (int, float)) else self.default
        return isinstance(number, (int, float)) and number > (1 if self.kind == "above_one" else 0)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many layers a model has, which template each follows, and how many heads their attention has.

    The templates are ``dense``, ``moe`` or both. With both, ``first_dense`` layers come before the experts, or
    ``moe_frequency`` says which layers have experts. ``mtp``: number of multi-token prediction layers.
    """

    templates: tuple[str, ...]
    num_layers: Setting
    first_dense: Setting | None = None
    moe_frequency: Setting | None = None
    experts: Setting | None = None
    mtp: Setting | None = None
    heads: Setting | None = None
    kv_heads: Setting | None = None

    def names(self, model_config: Mapping[str, object], num_layers: int) -> tuple[str, ...]:
        """The template name of every decoder layer."""
        if self.templates != ("dense", "moe") or not self.experts or not self.first_dense or not self.moe_frequency:
            return self.templates[:1] * num_layers
        if not self.experts.count(model_config):
            return ("dense",) * num_layers
        first = min(self.first_dense.count(model_config), num_layers)
        if first > 0:
            return ("dense",) * first + ("moe",) * (num_layers - first)
        frequency = self.moe_frequency.read(model_config)
        if isinstance(frequency, list) and len(frequency) == num_layers:
            return tuple("moe" if item == 1 else "dense" for item in frequency)
        every = max(1, self.moe_frequency.count(model_config))
        return tuple("dense" if index % every else "moe" for index in range(num_layers))


@dataclass(frozen=True, kw_only=True)
class FamilyVariant:
    """The templates for certain values of the switches.

    Attributes:
        when: The combinations it stands for.
        read: Makes the templates: of a family that a config has, one variant is needed.
    """

    when: tuple[Mapping[str, SwitchValue], ...]
    read: Callable[[], Mapping[str, LayerTemplate]]

    @cached_property
    def templates(self) -> Mapping[str, LayerTemplate]:
        return self.read()


@dataclass(frozen=True, kw_only=True)
class Family:
    """Models whose decoder layers come from the same cells.

    Attributes:
        flash_attention: The operator pattern that finds its flash attention.
        made_with: By package, ``mindformers`` and ``mindspore``: the versions whose cells were read and compiled.
    """

    name: str
    title: str
    legacy: bool
    flash_attention: str
    switches: Mapping[str, Switch]
    layout: Layout
    variants: tuple[FamilyVariant, ...]
    made_with: Mapping[str, str]

    def templates_for(self, model_config: Mapping[str, object], num_layers: int) -> tuple[LayerTemplate, ...]:
        """One template per decoder layer; equal layers share one object.

        With switch values that no stored variant has (see ``approximated``) the nearest variant answers.
        """
        templates = self.nearest(model_config)[0].templates
        return tuple(templates[name] for name in self.layout.names(model_config, num_layers))

    def extra_layers_for(self, model_config: Mapping[str, object]) -> tuple[tuple[str, LayerTemplate], ...]:
        """Name and template of the multi-token prediction layers; they take the settings of the last decoder layer."""
        count = self.layout.mtp.count(model_config) if self.layout.mtp else 0
        templates = self.nearest(model_config)[0].templates
        return tuple((f"mtp{number}", templates["mtp"]) for number in range(count))

    def approximated(self, model_config: Mapping[str, object]) -> tuple[str, ...]:
        """The switches whose value differs from that of the variant that ``templates_for`` answers with."""
        return self.nearest(model_config)[1]

    def nearest(self, model_config: Mapping[str, object]) -> tuple[FamilyVariant, tuple[str, ...]]:
        """The variant with the fewest switches that differ from the configuration, and those switches."""
        values = {name: switch.value(model_config) for name, switch in self.switches.items()}
        choices = (
            (variant, tuple(name for name, value in values.items() if when[name] != value))
            for variant in self.variants
            for when in variant.when
        )
        return min(choices, key=lambda choice: len(choice[1]))


def _value(section: object, key: str) -> object:
    for part in key.split("."):
        if not isinstance(section, Mapping) or part not in section:
            return _ABSENT
        section = section[part]
    return section


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
