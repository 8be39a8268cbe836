"""What is known of MindSpore and mindformers by version: documented unless measured otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from swapconf.phrases import phrase

MEASURED = {"mindspore": "2.9.0", "mindformers": "1.9.0"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A behaviour and where it is known from."""

    value: int
    source: str


@dataclass(frozen=True, slots=True)
class _Known:
    """A behaviour in all versions but those that are named."""

    otherwise: Fact
    mindspore: Mapping[str, Fact] = field(default_factory=dict)
    mindformers: Mapping[str, Fact] = field(default_factory=dict)


_KNOWN = {
    "recomputed_consumer_voids_swap": _Known(
        Fact(True, phrase("documented (MindSpore Transformers, Fine-Grained Activations SWAP, rule 2)")),
        mindspore={"2.9.0": Fact(False, phrase("measured in MindSpore 2.9.0 dry runs: 5 of 5 direct cases moved, "
                                               "released and fed the recomputed operator"))}),
    "lazy_inline_variable_needed": _Known(
        Fact(True, phrase("documented (without pipeline parallelism, set ENABLE_LAZY_INLINE_NO_PIPELINE=1)")),
        mindformers={"1.9.0": Fact(False, phrase("measured with mindformers 1.9.0 and MindSpore 2.9.0: the variable "
                                                 "does not exist; swap works the same without it"))}),
    "lazy_inline_off_without_pipeline": _Known(
        Fact(True, phrase("mindformers 1.9.0 BaseTrainer: pipeline_stage 1 and gradient_accumulation_steps 1 set "
                          "disable_lazy_inline"))),
    "mcore_drops_swap_config": _Known(
        Fact(True, phrase("measured with mindformers 1.9.0: TransformerOpParallelConfig.to_dict() has no 'swap', so "
                          "mcore models never see swap_config"))),
    "mcore_refuses_cpu_offloading": _Known(
        Fact(False, phrase("executed with mindformers 2.0.0: its converter takes both names")),
        mindformers={"1.9.0": Fact(True, phrase("executed with mindformers 1.9.0, all five mcore families: Mapping "
                                                "Conflicts, whatever the value"))}),
    "mcore_refuses_recompute_keys": _Known(
        Fact(True, phrase("executed with mindformers 1.9.0, all five mcore families: Mapping Conflicts with what "
                          "recompute_config always brings"))),
    "prefetch_two_copies_from": _Known(
        Fact(23, phrase("measured on a 4-layer Llama: the last layer holds two device copies from N = 23 to 66 on, the "
                        "first from 156 to 204"))),
    "prefetch_worse_from": _Known(
        Fact(100, phrase("measured on a 4-layer Llama with layer_swap: N = 50 peaks at 203.82 MB, N = 100 at 287.59 "
                         "MB, no swap at 281.83 MB"))),
    "prefetch_crash_from_per_layer": _Known(
        Fact(81, phrase("measured on a 4-layer Llama with layer_swap: the compiler ends with SIGSEGV for N from 324 "
                        "(81 per layer) to 835"))),
    "prefetch_crash_to_per_layer": _Known(
        Fact(209, phrase("measured on a 4-layer Llama with layer_swap: above N = 835 (209 per layer) no prefetch edge "
                         "is added at all"))),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The versions that a config will run with."""

    mindspore: str = MEASURED["mindspore"]
    mindformers: str = MEASURED["mindformers"]

    @classmethod
    def in_use(cls) -> Versions:
        """What is installed here; where nothing is (a laptop), the pair that was measured."""
        return cls(**{name: _installed(name) or version for name, version in MEASURED.items()})

    def fact(self, name: str) -> Fact:
        """What holds in these versions. Raises KeyError for a name that is not in the data."""
        known = _KNOWN[name]
        return known.mindspore.get(self.mindspore) or known.mindformers.get(self.mindformers) or known.otherwise


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
