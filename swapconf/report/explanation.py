"""STRATEGY -> TABLE or JSON: what was asked for and what takes effect, layer by layer, folded over equal layers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from swapconf.phrases import joined, mark, phrase, plural, show
from swapconf.primitives import VIEWS
from swapconf.strategy import (
    Action,
    Decision,
    Keep,
    LayerStrategy,
    ModuleDecision,
    Outcome,
    Reason,
    Recompute,
    Request,
    Strategy,
    Swap,
)
from swapconf.units import runs

_WORDS = {"default": mark("swap (default)"), "layer_swap": mark("swap (layer_swap)"),
          "op_swap": mark("swap (op_swap)"), "recompute": mark("recompute"),
          "select_recompute": mark("recompute (select)"), "select_recompute_exclude": mark("never recompute"),
          "select_comm_recompute": mark("recompute communication"),
          "select_comm_recompute_exclude": mark("never recompute communication")}
_ACTIONS = {Keep: mark("keep"), Swap: mark("swap"), Recompute: mark("recompute")}
_EFFECTS = {"swap": mark("swap"), "recompute": mark("recompute"), "keep": mark("keep"),
            "unknown": mark("unknown")}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``sites``: primitives for which ``effect`` holds, of those the request covers."""

    layers: str
    operator: str
    requested: str
    effect: str
    prefetch: str
    sites: str
    reason: str
    void: bool


def rows(strategy: Strategy, only_layer: int | None = None) -> list[Row]:
    """The table. Equal layers share rows; a site that differs from its request's own effect gets a row of its own."""
    return [row for group in _groups(strategy, only_layer) for outcome in group[0].plan.outcomes
            for row in _rows(_names(group), group[0], outcome)]


def _groups(strategy: Strategy, only_layer: int | None) -> list[list[LayerStrategy]]:
    entries = [entry for entry in strategy.layers if only_layer is None or entry.layer.index == only_layer]
    by_plan: dict[int, list[LayerStrategy]] = {}
    for entry in entries:
        by_plan.setdefault(id(entry.plan), []).append(entry)
    return list(by_plan.values())


def _names(group: Sequence[LayerStrategy]) -> str:
    plain = [entry.layer.index for entry in group if entry.layer.name == str(entry.layer.index)]
    extra = [entry.layer.name for entry in group if entry.layer.name != str(entry.layer.index)]
    return ", ".join([*runs(plain), *extra])


def _rows(layers: str, entry: LayerStrategy, outcome: Outcome) -> Iterator[Row]:
    request, decisions = outcome.request, entry.plan.decisions
    below = [path for path in decisions if _is_below(path, request.operator)]
    operator = request.operator or phrase("(layer)")
    if not request.is_swap and request.kind not in ("recompute", "select_recompute"):
        done = phrase("as asked, where communication stands directly before or behind it; a dry run tells") \
            if "comm" in request.kind else phrase("as asked")
        yield Row(layers, operator, phrase(_asked(request)), phrase("none") if outcome.void else phrase("as asked"), "",
                  str(len(outcome.sites)), outcome.void.text if outcome.void else done, bool(outcome.void))
        return
    seen = bool(entry.layer.template.operators)
    if outcome.void is not None:
        effects = dict.fromkeys(phrase(_word(decisions[path].action)) for path in below)
        yield Row(layers, operator, phrase(_asked(request)),
                  joined(" / ", effects) if seen else phrase(_ACTIONS[Recompute]), "",
                  _of(0, len(below)) if seen else phrase("not known"), _with_rule(outcome.void), True)
        return
    effect = phrase(_ACTIONS[Swap if request.is_swap else Recompute])
    sure = seen or not request.operator
    kinds = {entry.layer.template.by_path[path].type for path in outcome.sites} if seen else set()
    done = phrase("as asked, where MindSpore keeps the view; a dry run tells") \
        if request.is_swap and kinds and kinds <= VIEWS else phrase("as asked")
    yield Row(layers, operator, phrase(_asked(request)), effect, str(request.prefetch) if request.is_swap else "",
              _of(len(outcome.sites), len(below)) if seen else phrase("not known"),
              done if sure else phrase("as asked, if the layer has it and nothing recomputes it"),
              not sure)
    if request.is_swap:
        yield from _exceptions(layers, request, {path: decisions[path] for path in below})


def _exceptions(layers: str, request: Request, below: Mapping[str, Decision]) -> Iterator[Row]:
    """Sites below a swapped operator of which more is to be said than "as asked", grouped by what and why."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for path, decision in below.items():
        reason, winner = _with_rule(decision.reason), decision.requested
        if isinstance(decision.action, Swap):
            if winner is not None and winner != request:
                reason = phrase("{operator} overrides it [{kind}]", operator=winner.operator, kind=winner.kind)
            elif decision.reason.rule == request.kind:
                continue
        prefetch = str(decision.action.prefetch) if isinstance(decision.action, Swap) else ""
        groups.setdefault((_word(decision.action), prefetch, reason), []).append(path)
    for (effect, prefetch, reason), paths in groups.items():
        prefix = f"{request.operator}." if request.operator else ""
        names = [path.removeprefix(prefix) for path in paths]
        shown = ", ".join(names[:3])
        operators = phrase("  {operators} and {rest} more", operators=shown, rest=len(names) - 3) if names[3:] \
            else f"  {shown}"
        yield Row(layers, operators, "", phrase(effect), prefetch, str(len(paths)), reason, True)


def _of(part: int, whole: int) -> str:
    return phrase("{part} of {whole}", part=part, whole=whole)


def _with_rule(reason: Reason) -> str:
    return phrase("{reason} [{rule}]", reason=reason.text, rule=reason.rule)


def _asked(request: Request) -> str:
    return _WORDS[request.kind]


def _word(action: Action) -> str:
    return _ACTIONS[type(action)]


def _is_below(path: str, operator: str) -> bool:
    return not operator or path == operator or path.startswith(f"{operator}.")


def as_json(strategy: Strategy, lines: Mapping[str, Sequence[str]], only_layer: int | None = None) -> str:
    """Every layer with its decision at every site, and its log lines."""
    layers = [{"layer": entry.layer.index, "name": entry.layer.name, "stage": entry.layer.stage,
               "sites": [_site(path, decision) for path, decision in entry.plan.decisions.items()],
               "log_lines": list(lines[entry.layer.name])}
              for entry in strategy.layers if only_layer is None or entry.layer.index == only_layer]
    return json.dumps({"family": strategy.network.family, "num_layers": strategy.network.num_layers,
                       "layers": layers}, indent=2)


def _site(path: str, decision: Decision) -> dict[str, object]:
    action = decision.action
    return {"operator": path,
            "requested": _asked(decision.requested) if decision.requested else None,
            "effective": _word(action),
            "prefetch": action.prefetch if isinstance(action, Swap) else None,
            "recompute_root": action.root if isinstance(action, Recompute) else None,
            "rule": decision.reason.rule, "reason": show(decision.reason.text)}


def module_rows(decisions: Sequence[ModuleDecision]) -> list[Row]:
    """The table of a PyNative config; its prefetch counts layers, and modules are named as in the YAML."""
    return [Row(", ".join(runs(decision.layers)), decision.module or phrase("(layer)"), phrase(_WORDS[decision.kind]),
                phrase(_EFFECTS[decision.effect]), _layers_ahead(decision.prefetch_layers), "",
                decision.reason.text if decision.effect != "unknown" else _with_rule(decision.reason),
                decision.effect == "unknown")
            for decision in decisions]


def _layers_ahead(prefetch: int | None) -> str:
    return "" if prefetch is None else plural(prefetch, "{count} layer", "{count} layers")


def modules_as_json(decisions: Sequence[ModuleDecision]) -> str:
    """Every decision of a PyNative config, its prefetch in layers."""
    return json.dumps({"dialect": "pynative", "modules": [
        {"layers": list(decision.layers), "module": decision.module, "requested": _WORDS[decision.kind],
         "effective": decision.effect, "prefetch_layers": decision.prefetch_layers,
         "rule": decision.reason.rule, "reason": show(decision.reason.text)} for decision in decisions]}, indent=2)
