"""CONFIG + TRACE -> PARTS: which forward passes of the trace run once more, and which layers' blocks move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swapconf.config.config import Config
from swapconf.decide import budget
from swapconf.decide.module_paths import compiled
from swapconf.decide.modules import by_layer_in_parallel, decide_parallel
from swapconf.models.pynative_modules import Known, unknown
from swapconf.whatif.pynative.intervals import Step
from swapconf.words.phrases import phrase

_MODULES = "op_swap"
_COMMUNICATION = "select_comm_recompute"  # there is none in the layers of one card


class NotPredicted(ValueError):
    """A decision whose effect is not known; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Parts:
    """``again``: (layer, path of a module, "" for the whole layer). ``moved``: the same, and the layer that says
    when."""

    again: frozenset[tuple[int, str]]
    moved: tuple[tuple[int, str, int], ...]


def parts(config: Config, steps: Iterable[Step], known: Known = unknown) -> Parts:
    """``known``: what can be named in the layers. Raises NotPredicted."""
    _refuse_functions(config, known)
    if config.recompute.kept_ops and (config.recompute.full is not None or config.recompute.select):
        raise NotPredicted(_kept(", ".join(config.recompute.kept_ops)))
    modules = _Modules(steps)
    again: dict[int, set[str]] = {}
    moved: dict[tuple[int, str], int] = {}
    for decision in decide_parallel(config):
        if decision.kind in (_COMMUNICATION, _MODULES):
            continue
        if decision.effect == "keep":
            raise NotPredicted(_kept(decision.module))
        for layer in decision.layers:
            if decision.effect == "swap" and decision.prefetch_layers:
                moved.setdefault((layer, ""), layer + decision.prefetch_layers)
            elif decision.effect == "recompute":
                again.setdefault(layer, set()).update(modules.matching(layer, decision.module))
    for layer, path, prefetch in _swapped_modules(config, known):
        modules.check(layer, path)
        moved.setdefault((layer, path), layer + prefetch)
    return Parts(
        frozenset((layer, path) for layer, found in again.items() for path in _outermost(found)),
        tuple((layer, path, target) for (layer, path), target in sorted(moved.items())),
    )


class _Modules:
    """Those of each layer that a trace tells."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._paths: dict[int, set[str]] = {}
        self._are_told = False
        for step in steps:
            for one in step.passes:
                self._paths.setdefault(one.layer, set()).add(one.module)
                self._are_told |= bool(one.module) and one.turn is not None

    def matching(self, layer: int, pattern: str) -> Iterator[str]:
        """Paths, "" for the whole layer where there is no pattern. Raises NotPredicted."""
        if pattern and not self._are_told:
            raise NotPredicted(_untold())
        return _paths(pattern, self._paths.get(layer, set()))

    def check(self, layer: int, path: str) -> None:
        """Raises NotPredicted where it is no module of the layer."""
        if not self._are_told:
            raise NotPredicted(_untold())
        if path not in self._paths.get(layer, set()):
            raise NotPredicted(_no_module(path, layer))


def _swapped_modules(config: Config, known: Known) -> Iterator[tuple[int, str, int]]:
    """(layer, path of a module, how many layers ahead it returns), without those in others. Raises NotPredicted where
    it is not known what a layer has."""
    for layer, here in by_layer_in_parallel(config, known):
        for one in here:
            if one.kind == _MODULES and one.effect == "swap" and one.prefetch_layers:
                if known(layer) is None:
                    raise NotPredicted(_untold())
                yield from ((layer, path, one.prefetch_layers) for path in one.paths)


def _no_module(path: str, layer: int) -> str:
    return phrase(
        "op_swap {path} in layer {layer}: the swap of single operators is not predicted, that of modules and of whole "
        "layers is; `swapconf dryrun` runs it",
        path=path,
        layer=layer,
    )


def _refuse_functions(config: Config, known: Known) -> None:
    """`recompute_comm` wraps whatever function its paths match, be it one that communicates or not."""
    for layer, here in by_layer_in_parallel(config, known):
        modules = known(layer)
        for one in here:
            if one.kind == _COMMUNICATION and modules is not None and not modules.functions.isdisjoint(one.paths):
                raise NotPredicted(
                    phrase(
                        "recompute_comm {pattern} in layer {layer} reaches operators that do not communicate, as "
                        "{path}; recompute of single operators is not predicted, `swapconf dryrun` runs it",
                        pattern=one.module,
                        layer=layer,
                        path=next(path for path in one.paths if path in modules.functions),
                    )
                )


def _paths(pattern: str, known: set[str]) -> Iterator[str]:
    if not pattern:
        yield ""
        return
    expression, left = compiled(pattern), budget.current()
    yield from (path for path in known if path and left.fits(expression, path, pattern))


def _outermost(paths: set[str]) -> Iterator[str]:
    """Those that lie in no other. Source: mindformers 2.0.0, activation_checkpoint.py, _clean_and_parse_config."""
    for path in paths:
        if path == "" or not any(other == "" or path.startswith(f"{other}.") for other in paths):
            yield path


def _untold() -> str:
    return phrase("the trace does not tell the modules of its layers; make it again with this version of swapconf")


def _kept(operators: str) -> str:
    return phrase("operators that are kept from recompute ({module}) are not predicted", module=operators)
