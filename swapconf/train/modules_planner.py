"""STUDY + REAL MODULES -> ORDER: what the study decides for the layers that a PyNative process has, path by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from swapconf.config import layer_ranges, yaml_config
from swapconf.config.config import Config
from swapconf.config.nodes import Document, from_plain, nowhere
from swapconf.config.rewriting import asked
from swapconf.decide import budget, module_lines
from swapconf.decide.module_paths import literal
from swapconf.decide.modules import applied_nowhere, by_layer, by_layer_in_parallel, modules_of, not_on_one_card
from swapconf.decide.strategy import ModuleOutcome, Reason, RequestKind
from swapconf.train.passed import passed_otherwise
from swapconf.train.pynative_hook import ModulesOrder, Passed, Sections
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase

_NOT_CALLED = "pynative-runtime"
Outcomes = dict[int, tuple[ModuleOutcome, ...]]


def as_document(passed: Passed, like: Document) -> Document:
    """What is passed, as a training YAML."""
    return from_plain({**passed.sections, "model": _model(passed), "training": {}}, like)


def with_layout(document: Document, passed: Passed) -> Document:
    """The document for the layers that mindformers has built."""
    settings: Any = document.root.plain()
    model = settings.get("model")
    known = model if isinstance(model, dict) else {}
    return from_plain({**settings, "model": {**known, **_model(passed)}}, document)


def _model(passed: Passed) -> dict[str, Any]:
    return {"num_hidden_layers": passed.num_layers, "num_nextn_predict_layers": passed.num_mtp_layers}


def differences(config: Config, passed: Passed, mindformers: str) -> Iterator[Finding]:
    """An error for each thing that mindformers passes otherwise than the config has it."""
    if config.num_named_layers != passed.num_layers + passed.num_mtp_layers:
        yield passed_otherwise(
            config.origin("model.num_hidden_layers", "model.num_layers", "model"),
            phrase(
                "mindformers builds {passed} layers, and the config was read as {read}",
                passed=passed.num_layers + passed.num_mtp_layers,
                read=config.num_named_layers or 0,
            ),
        )
        return
    theirs, _ = yaml_config.from_document(as_document(passed, nowhere("<model config>")), mindformers=mindformers)
    if asked(replace(theirs, recompute=config.recompute)) != asked(config):
        yield passed_otherwise(
            config.origin("swap.enable", "swap"),
            phrase("mindformers passes another swap to the layers than the config has"),
        )
    if asked(replace(theirs, swap=config.swap)) != asked(config):
        yield passed_otherwise(
            config.origin("recompute.mode", "recompute"),
            phrase("mindformers passes another recompute to the layers than the config has"),
        )


def order(config: Config, passed: Passed) -> ModulesOrder:
    """For the layers of this process. It runs on several cards, or as if it did."""
    with budget.shared():
        found = {
            layer: here for layer, here in by_layer_in_parallel(config, passed.modules.get) if layer in passed.modules
        }
    lines = tuple(line for layer, here in found.items() for line in module_lines.skip_lines(layer, here))
    return ModulesOrder(sections=_sections(found), lines=lines)


def lines_without_seam(config: Config, mindformers: str, *, is_parallel: bool) -> tuple[str, ...]:
    """All that is asked for is skipped."""
    reason = (
        Reason(_NOT_CALLED, phrase("mindformers does not apply it to this model")) if is_parallel else not_on_one_card()
    )
    with budget.shared():
        found = applied_nowhere(by_layer(config, modules_of(config, mindformers)), reason)
        return tuple(line for layer, here in found for line in module_lines.skip_lines(layer, here))


def _sections(found: Outcomes) -> Sections:
    """Everything by its own path, so that nothing is left to match."""
    full = [layer for layer, here in found.items() if _paths(here, "recompute")]
    select, comm = _by_path(found, "select_recompute"), _by_path(found, "select_comm_recompute")
    whole = [layer for layer, here in found.items() if _paths(here, "layer_swap")]
    modules = _by_path(found, "op_swap")
    return {
        "recompute": {
            "mode": "select" if select else "full" if full else "None",
            "full_recompute_layer": layer_ranges.spell(full) or None,
            "select_module": select or None,
        },
        "recompute_comm": {"enable": bool(comm), "select_module": comm or None},
        "swap": {
            "enable": bool(whole or modules),
            "layer_swap": [{"layers": layer_ranges.spell(whole)}] if whole else None,
            "op_swap": [{"op_name": path, "layers": layers} for path, layers in modules.items()] or None,
        },
    }


def _by_path(found: Mapping[int, Iterable[ModuleOutcome]], kind: RequestKind) -> dict[str, list[str]]:
    layers: dict[str, list[int]] = {}
    for layer, here in found.items():
        for path in _paths(here, kind):
            layers.setdefault(path, []).append(layer)
    return {_named(path): layer_ranges.spell(numbers) for path, numbers in sorted(layers.items(), key=_depth)}


def _named(path: str) -> str:
    """What matches this path alone; a pattern that took too long to match stays what it is."""
    return path.replace(".", r"\.") if literal(path) is not None else path


def _depth(item: tuple[str, list[int]]) -> tuple[int, str]:
    return item[0].count("."), item[0]


def _paths(here: Iterable[ModuleOutcome], kind: RequestKind) -> tuple[str, ...]:
    return tuple(path for one in here if one.kind == kind and one.effect != "nothing" for path in one.paths)
