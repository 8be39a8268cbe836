"""What is known of MindSpore and mindformers by version: documented unless measured otherwise.

A fact holds from a version on. What was measured with the newest version is taken to hold for later ones, and for those
between two that were measured the earlier one's; the source then says for which version nobody measured it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from swapconf.upstream.versions import TITLES, partner, reached, same
from swapconf.words.phrases import phrase

MEASURED = {"mindspore": "2.9.0", "mindformers": "1.9.0"}  # the pair that most was measured with

# every one was trained and dry-run with a partner (docs/evidence/generations.md)
MEASURED_MINDSPORE = ("2.7.1", "2.7.2", "2.9.0", "2.10.0")
MEASURED_MINDFORMERS = ("1.6.0", "1.7.0", "1.8.0", "1.9.0", "2.0.0", "2.1.0")
MEASURED_PAIRS = (("1.6.0", "2.7.2"), ("1.7.0", "2.7.1"), ("1.7.0", "2.7.2"), ("1.8.0", "2.7.2"),
                  ("1.9.0", "2.9.0"), ("2.0.0", "2.10.0"), ("2.1.0", "2.10.0"))
_SEVEN_ON = MEASURED_MINDFORMERS[1:]

_Package = Literal["mindspore", "mindformers"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A behaviour and where it is known from."""

    value: int
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Range:
    """What holds from a version on. ``measured``: with which versions it was; none: it is documented."""

    value: int
    source: str
    since: str = "0.0"
    measured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """A behaviour of a package; ``ranges``: from old to new, the first without ``since``."""

    package: _Package
    ranges: tuple[_Range, ...]

    def at(self, version: str) -> Fact:
        held = [item for item in self.ranges if reached(version, item.since)][-1]
        return Fact(held.value, _told(held, TITLES[self.package], version))


def _told(held: _Range, package: str, version: str) -> str:
    """The source, and with which version that was measured; for a version that was not, that it was not."""
    if not held.measured:
        return held.source
    if any(same(version, one) for one in held.measured):
        return phrase("measured with {package} {version}: {source}", package=package, version=version,
                      source=held.source)
    newest = [one for one in held.measured if reached(version, one)][-1:] or held.measured[:1]
    return phrase("measured with {package} {measured}, not measured for {version}: {source}", package=package,
                  measured=newest[0], version=version, source=held.source)


_PREFETCH = ("2.9.0",)
_KNOWN = {
    "recomputed_consumer_voids_swap": _Known("mindspore", (
        _Range(value=True, source=phrase("documented (MindSpore Transformers, Fine-Grained Activations SWAP, rule 2)")),
        _Range(value=False, since="2.7.1", measured=MEASURED_MINDSPORE,
               source=phrase("in dry runs the tensor is moved, released and feeds the recomputed operator")))),
    "lazy_inline_variable_needed": _Known("mindformers", (
        _Range(value=True,
               source=phrase("documented (without pipeline parallelism, set ENABLE_LAZY_INLINE_NO_PIPELINE=1)")),
        _Range(value=False, since="1.7.0", measured=_SEVEN_ON, source=phrase("the variable does not exist")))),
    "lazy_inline_off_without_pipeline": _Known("mindformers", (
        _Range(value=False, source=phrase("its BaseTrainer leaves that to ENABLE_LAZY_INLINE_NO_PIPELINE")),
        _Range(value=True, since="1.7.0", measured=_SEVEN_ON,
               source=phrase("BaseTrainer: pipeline_stage 1 and gradient_accumulation_steps 1 set "
                             "disable_lazy_inline")))),
    "mcore_drops_swap_config": _Known("mindformers", (
        _Range(value=True, measured=MEASURED_MINDFORMERS,
               source=phrase("TransformerOpParallelConfig.to_dict() has no 'swap', so mcore models never see "
                             "swap_config")),)),
    "mcore_refuses_cpu_offloading": _Known("mindformers", (
        _Range(value=False, source=phrase("no release before 1.9.0 is known to refuse it")),
        _Range(value=True, since="1.9.0", measured=("1.9.0",),
               source=phrase("all five mcore families stop with Mapping Conflicts, whatever the value")),
        _Range(value=False, since="2.0.0", measured=("2.0.0",), source=phrase("the converter takes both names")))),
    "mcore_refuses_recompute_keys": _Known("mindformers", (
        _Range(value=True, measured=("1.9.0",), source=phrase("all five mcore families stop with Mapping Conflicts "
                                                              "with what recompute_config always brings")),)),
    "run_steps_aside": _Known("mindformers", (
        _Range(value=True, measured=("1.6.0",),
               source=phrase("its models have another LayerSetting than those of later releases")),
        _Range(value=False, since="1.7.0", measured=_SEVEN_ON, source=phrase("every name that it needs is there")))),
    "prefetch_two_copies_from": _Known("mindspore", (
        _Range(value=23, measured=_PREFETCH,
               source=phrase("on a 4-layer Llama the last layer holds two device copies from N = 23 to 66 on, the "
                             "first from 156 to 204")),)),
    "prefetch_worse_from": _Known("mindspore", (
        _Range(value=100, measured=_PREFETCH,
               source=phrase("on a 4-layer Llama with layer_swap, N = 50 peaks at 203.82 MB, N = 100 at 287.59 MB, no "
                             "swap at 281.83 MB")),)),
    "prefetch_crash_from_per_layer": _Known("mindspore", (
        _Range(value=81, measured=_PREFETCH,
               source=phrase("on a 4-layer Llama with layer_swap, the compiler ends with SIGSEGV for N from 324 (81 "
                             "per layer) to 835")),)),
    "prefetch_crash_to_per_layer": _Known("mindspore", (
        _Range(value=209, measured=_PREFETCH,
               source=phrase("on a 4-layer Llama with layer_swap, above N = 835 (209 per layer) no prefetch edge is "
                             "added at all")),)),
}


# operator trees, read from the real cells and compared with those of the catalog
_SAME_TREES = {"llama": ("1.8.0", "1.9.0", "2.0.0", "2.1.0")}
_OTHER_TREES = {
    ("qwen3", "1.8.0"): phrase("in 1.8.0 one primitive, mul_mscale, is of another type"),
    ("deepseek_v3", "1.8.0"): phrase("in 1.8.0, 18 layer templates differ"),
}


def catalog_difference(family: str, made_with: str, mindformers: str) -> str:
    """What differs between the catalog's operators of a family, read from the cells of ``made_with``, and those of
    another mindformers; "" where nothing does."""
    if same(made_with, mindformers) or any(same(one, mindformers) for one in _SAME_TREES.get(family, ())):
        return ""
    known = [text for (name, version), text in _OTHER_TREES.items() if name == family and same(version, mindformers)]
    return known[0] if known else phrase("with those of {version} they were not compared",
                                              version=mindformers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The versions that a config will run with. ``assumed``: the packages that are neither installed nor given."""

    mindspore: str = MEASURED["mindspore"]
    mindformers: str = MEASURED["mindformers"]
    assumed: tuple[str, ...] = ()

    @classmethod
    def in_use(cls, mindspore: str | None = None, mindformers: str | None = None) -> Versions:
        """What is given, else installed here; where neither is (a laptop), the official partner of the other one,
        else the pair that most was measured with."""
        return cls.among(installed(), mindspore, mindformers)

    @classmethod
    def among(cls, found: Installed, mindspore: str | None = None, mindformers: str | None = None) -> Versions:
        """The same, where it is known already what is installed."""
        one, other = mindspore or found.mindspore, mindformers or found.mindformers
        return cls(
            mindspore=one or (other and partner("mindformers", other)) or MEASURED["mindspore"],
            mindformers=other or (one and partner("mindspore", one)) or MEASURED["mindformers"],
            assumed=tuple(name for name, version in (("mindspore", one), ("mindformers", other)) if version is None))

    def fact(self, name: str) -> Fact:
        """What holds in these versions. Raises KeyError for a name that is not in the data."""
        known = _KNOWN[name]
        return known.at(self.mindspore if known.package == "mindspore" else self.mindformers)


@dataclass(frozen=True, slots=True)
class Installed:
    """The versions in this environment, None for what is not installed."""

    mindspore: str | None
    mindformers: str | None


def installed() -> Installed:
    return Installed(_installed("mindspore"), _installed("mindformers"))


def _installed(package: str) -> str | None:
    """The version of a package, without importing it; by the name of its dist-info folder, which costs least."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    for folder in Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"):
        return folder.name.removesuffix(".dist-info").removeprefix(f"{package}-")
    from importlib import metadata  # slow to import, and only needed for unusual installations

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
