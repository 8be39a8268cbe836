"""CONFIG + TRACE -> PARTS: which forward passes of the trace run once more, and which layers' blocks move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swapconf.config.config import Config
from swapconf.decide import budget
from swapconf.decide.module_paths import compiled
from swapconf.decide.modules import by_layer_in_parallel, decide_parallel
from swapconf.decide.strategy import ModuleDecision
from swapconf.models.pynative_modules import Known, unknown
from swapconf.whatif.pynative.intervals import Step
from swapconf.words.phrases import phrase
from swapconf.words.units import runs

_COMMUNICATION = "select_comm_recompute"  # there is none in the layers of one card


class NotPredicted(ValueError):
    """A decision whose effect is not known; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Parts:
    """``again``: (layer, path of a module, "" for the whole layer). ``moved``: (layer, the layer that says when)."""

    again: frozenset[tuple[int, str]]
    moved: tuple[tuple[int, int], ...]


def parts(config: Config, steps: Iterable[Step], known: Known = unknown) -> Parts:
    """``known``: what can be named in the layers. Raises NotPredicted."""
    _refuse_functions(config, known)
    if config.recompute.kept_ops and (config.recompute.full is not None or config.recompute.select):
        raise NotPredicted(_kept(", ".join(config.recompute.kept_ops)))
    paths: dict[int, set[str]] = {}
    are_told = False
    for step in steps:
        for one in step.passes:
            paths.setdefault(one.layer, set()).add(one.module)
            are_told |= bool(one.module) and one.turn is not None
    again: dict[int, set[str]] = {}
    moved: dict[int, int] = {}
    for decision in decide_parallel(config):
        if decision.kind == _COMMUNICATION:
            continue
        _refuse(decision)
        for layer in decision.layers:
            if decision.effect == "swap" and decision.prefetch_layers:
                moved.setdefault(layer, layer + decision.prefetch_layers)
            elif decision.effect == "recompute":
                if decision.module and not are_told:
                    raise NotPredicted(_untold())
                again.setdefault(layer, set()).update(_paths(decision.module, paths.get(layer, set())))
    return Parts(
        frozenset((layer, path) for layer, found in again.items() for path in _outermost(found)),
        tuple(sorted(moved.items())),
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


def _refuse(decision: ModuleDecision) -> None:
    layers = ", ".join(runs(frozenset(decision.layers)))
    if decision.kind == "op_swap":
        raise NotPredicted(
            phrase(
                "op_swap {module} in layers {layers}: the swap of single modules is not predicted, that of whole "
                "layers is (layer_swap)",
                module=decision.module,
                layers=layers,
            )
        )
    if decision.effect == "keep":
        raise NotPredicted(_kept(decision.module))


def _kept(operators: str) -> str:
    return phrase("operators that are kept from recompute ({module}) are not predicted", module=operators)
