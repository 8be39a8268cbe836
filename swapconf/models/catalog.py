"""NETWORK of known families: the layers of a model from its YAML alone, no mindspore needed.

>>> family = load(identify(model_section, use_legacy=False), mindformers="1.8.0")
>>> family.templates_for(model_config, family.layout.num_layers.count(model_config))

Graph facts (``executed``, ``saved``, ``consumers``) were measured by compiling each variant once, with the data types
of the usual training YAMLs; other data types add or remove a Cast. ``saved`` holds for a primitive flagged on its
own: when several flagged primitives do the same to the same tensor, MindSpore merges them and moves it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from swapconf.models import store
from swapconf.models.family import Family
from swapconf.models.network import NearModel, UnknownModel

__all__ = ["Family", "class_names", "classes", "families", "identify", "load", "near", "releases", "unknown"]

load = store.load
releases = store.releases

# Says nothing about the model: mindformers then takes the type from elsewhere.
_GENERIC_TYPE = "PretrainedConfig"
# By kind, legacy or not: keys of families.json with the names of configs and of networks, and where a YAML has them.
_CLASSES = {True: ("config_types", "arch_types"), False: ("model_types", "architectures")}
_NAMED_AT = {True: ("model_config.type", "arch.type"), False: ("model_config.model_type", "model_config.architectures")}


def families() -> tuple[str, ...]:
    return tuple(store.index())


def identify(
    model: Mapping[str, object], *, use_legacy: bool | None, also: Mapping[str, str] | None = None
) -> str | None:
    """The family of the ``model`` section of a training YAML; None if the catalog does not know it.

    ``use_legacy``: as in the YAML; None if unknown, then both kinds of model are considered. ``also``: by name of a
    class of the user's own, the family whose layers it has.
    """
    model_config, arch = _section(model, "model_config"), _section(model, "arch")
    own = next((also[name] for name in classes(model) if name in also), None) if also else None
    if own is not None:
        return own
    if "auto_register" in model_config or "auto_register" in arch:
        return None  # a class of the user's own, whatever its name
    for name, known in store.index().items():
        if use_legacy is not None and use_legacy != known["legacy"]:
            continue
        if known["legacy"]:
            config, network = _names(model_config.get("type")), _names(arch.get("type"))
        else:
            config, network = _names(model_config.get("model_type")), _names(model_config.get("architectures"))
        configs, networks = (known[key] for key in _CLASSES[known["legacy"]])
        fits = bool(config or network)
        fits &= not config or _fits(config, configs)
        fits &= not network or _fits(network, networks)
        if fits:
            return name
    return None


def classes(model: Mapping[str, object]) -> list[str]:
    """The classes that the ``model`` section of a training YAML names."""
    model_config, arch = _section(model, "model_config"), _section(model, "arch")
    values = (*map(model_config.get, ("type", "model_type", "architectures")), arch.get("type"))
    return [name for value in values for name in _names(value)]


def class_names(family: str) -> Mapping[str, str]:
    """The classes that a YAML of a family names, by path below ``model``."""
    known = store.index()[family]
    configs, networks = _CLASSES[known["legacy"]]
    of_config, of_network = _NAMED_AT[known["legacy"]]
    return {of_config: known[configs][0], of_network: known[networks][0]}


def unknown(model: Mapping[str, object], *, use_legacy: bool) -> UnknownModel:
    """What makes an unknown model one."""
    for path in ("arch", "model_config"):
        if "auto_register" in _section(model, path):
            return UnknownModel(f"{path}.auto_register")
    named = {path: name for path in _NAMED_AT[use_legacy] for name in _names(_at(model, path))}
    known = {name for path in named for name in _all_of(path, use_legacy)}
    strange = next((UnknownModel(path, name) for path, name in named.items() if name not in known), None)
    if strange is not None or not named:
        return strange or UnknownModel("")
    *configs, path = named
    return UnknownModel(path, named[path], beside=named[configs[0]] if configs else "")


def _all_of(path: str, use_legacy: bool) -> Iterator[str]:
    """The classes of all families that can stand at a path."""
    key = dict(zip(_NAMED_AT[use_legacy], _CLASSES[use_legacy], strict=True))[path]
    return (name for known in store.index().values() if known["legacy"] == use_legacy for name in known[key])


def _at(model: Mapping[str, object], path: str) -> object:
    section, _, key = path.partition(".")
    return _section(model, section).get(key)


def near(model: Mapping[str, object], *, use_legacy: bool) -> NearModel | None:
    """The known class that one of an unknown model was probably meant to be: alike, or itself of the other kind."""
    model_config, arch = _section(model, "model_config"), _section(model, "arch")
    if "auto_register" in model_config or "auto_register" in arch:
        return None
    known = {
        name: bool(family["legacy"])
        for family in store.index().values()
        for key, names in family.items()
        if key != "legacy"
        for name in names
    }
    given = [
        (path, name)
        for section, keys, above in (
            (model_config, ("type", "model_type", "architectures"), "model_config"),
            (arch, ("type",), "arch"),
        )
        for key in keys
        for path in (f"{above}.{key}",)
        for name in _names(section.get(key))
    ]
    for path, name in given:
        if name in known and known[name] != use_legacy:
            return NearModel(path, name, name, known[name])
    for path, name in given:
        close = get_close_matches(name, [other for other in known if known[other] == use_legacy], n=1, cutoff=0.85)
        if name not in known and close:
            return NearModel(path, name, close[0], use_legacy)
    return None


def _section(model: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = model.get(key) if isinstance(model, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> tuple[str, ...]:
    """Class names in a value of any type; mindformers takes the first of a list."""
    first = value[0] if isinstance(value, list) and value else value
    return (first,) if isinstance(first, str) and first not in ("", _GENERIC_TYPE) else ()


def _fits(names: tuple[str, ...], known: list[str]) -> bool:
    return bool(names) and names[0] in known
