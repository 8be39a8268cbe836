"""The seam of mindformers' PyNative training where swapconf decides: `apply_ac`. [mindformers, imported by the run]

`apply_ac` goes on doing what it does, for what was decided: mindformers puts its cells around layers and modules and
logs `Set ...`; it is only told what to do, each module by its own path, and the lines `Skip ...` are added. Where it is
never called nothing of the sections happens, and mindformers is silent; the log says so when training begins. Source:
mindformers 2.0.0 and 2.1.0, pynative/distributed/activation_checkpoint.py and pynative/trainer/trainer.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Protocol

from swapconf.models.pynative_modules import LayerModules
from swapconf.train import seam_hooks
from swapconf.train.replacing import replace_everywhere
from swapconf.upstream import seams

Sections = Mapping[str, Mapping[str, Any]]  # swap, recompute and recompute_comm, under the names of a training YAML


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """What mindformers passes to `apply_ac`. ``modules``: of each layer of this process, by its number."""

    sections: Sections
    num_layers: int
    num_mtp_layers: int
    modules: Mapping[int, LayerModules]


@dataclass(frozen=True, slots=True)
class ModulesOrder:
    """``sections``: what is to be passed on, keys that are not there as they are. ``lines``: to be logged."""

    sections: Sections
    lines: tuple[str, ...]


class ModulesAdvisor(Protocol):
    """Decides; knows nothing of mindspore."""

    def modules(self, passed: Passed) -> ModulesOrder:
        """Raises SwapconfError where something else was passed than was studied."""

    def lines_without_seam(self, *, is_parallel: bool) -> tuple[str, ...]:
        """What to log where `apply_ac` was not called before training began; none where it was."""


def install(advisor: ModulesAdvisor, *, is_wanted: bool) -> None:
    """Put swapconf in the way of `apply_ac`, now or as soon as mindformers' PyNative training is imported.

    Where the installed mindformers lacks a seam, nothing is replaced, and stderr says so: at once where the run
    ``is_wanted`` to be one of PyNative mode, which needs them.
    """
    complete = cache(seams.pynative_complete_or_told)
    if is_wanted:
        complete()
    patches = ((seams.ACTIVATION, _take_apply_ac), (seams.PYNATIVE_TRAINER, _tell_at_training))
    seam_hooks.register(patches, advisor, complete)


def _take_apply_ac(module: Any, advisor: ModulesAdvisor) -> None:
    original = module.apply_ac

    @wraps(original)
    def apply_ac(model: Any, recompute: Any, recompute_comm: Any, swap: Any, pp: Any, mtp_block: Any = None) -> None:
        layers = model if mtp_block is None else module._MtpLayerView(model, mtp_block)
        given = {"recompute": recompute, "recompute_comm": recompute_comm, "swap": swap}
        order = advisor.modules(
            Passed(
                sections={name: _plain(section) for name, section in given.items()},
                num_layers=int(model.config.num_layers),
                num_mtp_layers=int(getattr(model.config, "mtp_num_layers", 0) or 0),
                modules={
                    int(number): _modules(layers.layers[number], paths)
                    for number, paths in module._get_modules_and_ops_list(layers).items()
                },
            )
        )
        changed = {name: _changed(section, order.sections.get(name, {})) for name, section in given.items()}
        original(model, **changed, pp=pp, mtp_block=mtp_block)
        for line in order.lines:
            module.logger.info(line)

    replace_everywhere("apply_ac", original, apply_ac)


def _plain(section: Any) -> dict[str, Any]:
    """What of a section is given."""
    return {name: copy.deepcopy(value) for name, value in vars(section).items() if value is not None}


def _changed(section: Any, values: Mapping[str, Any]) -> Any:
    changed = copy.copy(section)
    for name, value in values.items():
        setattr(changed, name, value)
    return changed


def _modules(layer: Any, paths: Iterable[str]) -> LayerModules:
    """``paths``: what mindformers finds in a layer."""
    every = frozenset(paths)
    cells = frozenset(path for path in every if _cell(layer, path.split(".")) is not None)
    fixed = frozenset(path for path in every - cells if _is_fixed_in(layer, path.split(".")))
    return LayerModules(cells=cells, functions=every - cells, fixed=fixed)


def _cell(cell: Any, names: list[str]) -> Any:
    """None where a name is no cell's."""
    for name in names:
        cell = getattr(cell, "_cells", {}).get(name)
    return cell


def _is_fixed_in(layer: Any, names: list[str]) -> bool:
    *above, name = names
    cell = _cell(layer, above)
    return cell is not None and is_fixed(cell, name)


def is_fixed(cell: Any, name: str) -> bool:
    """Whether its class has this function, so that MindSpore refuses a cell in its place. Source: MindSpore 2.10.0,
    nn/cell.py, insert_child_to_cell."""
    return hasattr(type(cell), name)


def _tell_at_training(module: Any, advisor: ModulesAdvisor) -> None:
    original = module.Trainer.train

    @wraps(original)
    def train(trainer: Any, *values: Any, **named: Any) -> Any:
        for line in advisor.lines_without_seam(is_parallel=bool(trainer.enable_parallel)):
            module.logger.info(line)
        return original(trainer, *values, **named)

    module.Trainer.train = train
