"""STRATEGY -> TABLE or JSON: what was asked for and what takes effect, layer by layer, folded over equal layers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from swapconf.decide.strategy import (
    Action,
    Decision,
    Keep,
    LayerPlan,
    LayerStrategy,
    ModuleDecision,
    Reason,
    Recompute,
    Request,
    RequestOutcome,
    Strategy,
    Swap,
)
from swapconf.models.network import LayerTemplate
from swapconf.upstream.primitives import VIEWS
from swapconf.upstream.scopes import descends
from swapconf.words.columns import Column, count, words
from swapconf.words.phrases import joined, mark, phrase, plural, show
from swapconf.words.units import runs

_WORDS = {
    "default": mark("swap (default)"),
    "layer_swap": mark("swap (layer_swap)"),
    "op_swap": mark("swap (op_swap)"),
    "recompute": mark("recompute"),
    "select_recompute": mark("recompute (select)"),
    "select_recompute_exclude": mark("never recompute"),
    "select_comm_recompute": mark("recompute communication"),
    "select_comm_recompute_exclude": mark("never recompute communication"),
}
_ACTIONS = {Keep: mark("keep"), Swap: mark("swap"), Recompute: mark("recompute")}
_EFFECTS = {"swap": mark("swap"), "recompute": mark("recompute"), "keep": mark("keep"), "nothing": mark("nothing")}


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


OPERATORS: tuple[Column[Row], ...] = (
    words(phrase("layer"), lambda row: row.layers),
    words(phrase("operator"), lambda row: row.operator),
    words(phrase("asked"), lambda row: row.requested),
    words(phrase("in effect"), lambda row: row.effect),
    count(phrase("prefetch"), lambda row: row.prefetch),
    words(phrase("sites"), lambda row: row.sites),
    words(phrase("reason"), lambda row: row.reason),
)
MODULES: tuple[Column[Row], ...] = (
    words(phrase("layer"), lambda row: row.layers),
    words(phrase("module"), lambda row: row.operator),
    words(phrase("asked"), lambda row: row.requested),
    words(phrase("in effect"), lambda row: row.effect),
    words(phrase("prefetch"), lambda row: row.prefetch),
    words(phrase("reason"), lambda row: row.reason),
)


def rows(strategy: Strategy, only_layer: int | None = None) -> list[Row]:
    """The table. Equal layers share rows; a site that differs from its request's own effect gets a row of its own."""
    return [
        row
        for group in _groups(strategy, only_layer)
        for outcome in group[0].plan.outcomes
        for row in _rows(_names(group), group[0], outcome)
    ]


def _groups(strategy: Strategy, only_layer: int | None) -> list[list[LayerStrategy]]:
    entries = [entry for entry in strategy.layers if only_layer is None or entry.layer.index == only_layer]
    by_plan: dict[LayerPlan, list[LayerStrategy]] = {}
    for entry in entries:
        by_plan.setdefault(entry.plan, []).append(entry)
    return list(by_plan.values())


def _names(group: Sequence[LayerStrategy]) -> str:
    plain = [entry.layer.index for entry in group if entry.layer.name == str(entry.layer.index)]
    extra = [entry.layer.name for entry in group if entry.layer.name != str(entry.layer.index)]
    return ", ".join([*runs(plain), *extra])


def _rows(layers: str, entry: LayerStrategy, outcome: RequestOutcome) -> Iterator[Row]:
    request = outcome.request
    below = {path: decision for path, decision in entry.plan.decisions.items() if descends(path, {request.operator})}
    if not request.is_swap and request.kind not in ("recompute", "select_recompute"):
        told = _of_rule(outcome)
    elif outcome.void is not None:
        told = _of_void(outcome.void, below, is_known=bool(entry.layer.template.operators))
    else:
        told = _of_effect(entry.layer.template, outcome, below)
    yield Row(
        layers,
        request.operator or phrase("(layer)"),
        phrase(_asked(request)),
        told.effect,
        told.prefetch,
        told.sites,
        told.reason,
        told.is_void,
    )
    if request.is_swap and outcome.void is None:
        yield from _exceptions(layers, request, below)


@dataclass(frozen=True, slots=True)
class _Told:
    """What became of a request: the columns of its row that are not the request itself."""

    effect: str
    sites: str
    reason: str
    is_void: bool
    prefetch: str = ""


def _of_rule(outcome: RequestOutcome) -> _Told:
    """Of a request that says what others do or leave, such as one of communication or to exclude."""
    if outcome.void:
        return _Told(phrase("none"), str(len(outcome.sites)), outcome.void.text, True)
    reason = (
        phrase("as asked, where communication stands directly before or behind it; a dry run tells")
        if "comm" in outcome.request.kind
        else phrase("as asked")
    )
    return _Told(phrase("as asked"), str(len(outcome.sites)), reason, False)


def _of_void(why: Reason, below: Mapping[str, Decision], *, is_known: bool) -> _Told:
    """``is_known``: whether the catalog knows which primitives the layer has."""
    if not is_known:
        return _Told(phrase(_ACTIONS[Recompute]), phrase("not known"), _with_rule(why), True)
    effects = dict.fromkeys(phrase(_word(decision.action)) for decision in below.values())
    return _Told(joined(" / ", effects), _of(0, len(below)), _with_rule(why), True)


def _of_effect(template: LayerTemplate, outcome: RequestOutcome, below: Mapping[str, Decision]) -> _Told:
    request = outcome.request
    effect = phrase(_ACTIONS[Swap if request.is_swap else Recompute])
    prefetch = str(request.prefetch) if request.is_swap else ""
    if not template.operators:
        is_sure = not request.operator
        reason = phrase("as asked") if is_sure else phrase("as asked, if the layer has it and nothing recomputes it")
        return _Told(effect, phrase("not known"), reason, not is_sure, prefetch)
    types = {template.by_path[path].type for path in outcome.sites}
    moves_views_only = request.is_swap and bool(types) and types <= VIEWS
    reason = (
        phrase("as asked, where MindSpore keeps the view; a dry run tells") if moves_views_only else phrase("as asked")
    )
    return _Told(effect, _of(len(outcome.sites), len(below)), reason, False, prefetch)


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
        operators = (
            phrase("  {operators} and {rest} more", operators=shown, rest=len(names) - 3) if names[3:] else f"  {shown}"
        )
        yield Row(layers, operators, "", phrase(effect), prefetch, str(len(paths)), reason, True)


def _of(part: int, whole: int) -> str:
    return phrase("{part} of {whole}", part=part, whole=whole)


def _with_rule(reason: Reason) -> str:
    return phrase("{reason} [{rule}]", reason=reason.text, rule=reason.rule)


def _asked(request: Request) -> str:
    return _WORDS[request.kind]


def _word(action: Action) -> str:
    return _ACTIONS[type(action)]


def as_json(
    strategy: Strategy, lines: Mapping[str, Sequence[str]], only_layer: int | None = None, common: Sequence[str] = ()
) -> str:
    """Every layer with its decision at every site, and its log lines; ``common``: those of all layers together."""
    layers = [
        {
            "layer": entry.layer.index,
            "name": entry.layer.name,
            "stage": entry.layer.stage,
            "sites": [_site(path, decision) for path, decision in entry.plan.decisions.items()],
            "log_lines": list(lines[entry.layer.name]),
        }
        for entry in strategy.layers
        if only_layer is None or entry.layer.index == only_layer
    ]
    return json.dumps(
        {
            "family": strategy.network.family,
            "num_layers": strategy.network.num_layers,
            "recompute_options": dict(strategy.recompute_options),
            "log_lines": list(common),
            "layers": layers,
        },
        indent=2,
    )


def _site(path: str, decision: Decision) -> dict[str, object]:
    action = decision.action
    return {
        "operator": path,
        "requested": _asked(decision.requested) if decision.requested else None,
        "effective": _word(action),
        "prefetch": action.prefetch if isinstance(action, Swap) else None,
        "recompute_root": action.root if isinstance(action, Recompute) else None,
        "rule": decision.reason.rule,
        "reason": show(decision.reason.text),
    }


def module_rows(decisions: Sequence[ModuleDecision]) -> list[Row]:
    """The table of a PyNative config; its prefetch counts layers, and modules are named as in the YAML."""
    return [
        Row(
            ", ".join(runs(decision.layers)),
            decision.module or phrase("(layer)"),
            phrase(_WORDS[decision.kind]),
            phrase(_EFFECTS[decision.effect]),
            _layers_ahead(decision.prefetch_layers),
            "",
            _with_rule(decision.reason) if decision.effect == "nothing" else decision.reason.text,
            decision.effect == "nothing",
        )
        for decision in decisions
    ]


def _layers_ahead(prefetch: int | None) -> str:
    return "" if prefetch is None else plural(prefetch, "{count} layer", "{count} layers")


def modules_as_json(decisions: Sequence[ModuleDecision], lines: Mapping[int, Sequence[str]]) -> str:
    """Every decision of a PyNative config, its prefetch in layers, and the log lines of each layer."""
    return json.dumps(
        {
            "dialect": "pynative",
            "modules": [
                {
                    "layers": list(decision.layers),
                    "module": decision.module,
                    "requested": _WORDS[decision.kind],
                    "effective": decision.effect,
                    "prefetch_layers": decision.prefetch_layers,
                    "rule": decision.reason.rule,
                    "reason": show(decision.reason.text),
                }
                for decision in decisions
            ],
            "log_lines": [{"layer": layer, "lines": list(said)} for layer, said in lines.items()],
        },
        indent=2,
    )
