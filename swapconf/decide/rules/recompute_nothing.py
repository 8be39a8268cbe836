r"""recompute-nothing: select_recompute of operators that recompute nothing.

A recomputed operator matters only when the backward pass reads its output, directly or through further recomputed
operators. On the legacy Llama the built-in patterns of ``select_recompute: True`` recompute nothing, because a reshape
owns the saved tensor (measured: no extra kernel, peak unchanged), while the log says "Set select recompute"; so it is
with an activation that is a cell of its own before a reshape, such as ``feed_forward\.w1\.activation`` or a fused
``mlp\.activation_func``. So it is, too, with flash attention or a norm by itself where the model is compiled without
lazy inline: one stage, no gradient accumulation, no swap; with MindSpore 2.7 in any case, and they get no flag then.

Fails on Llama: ``select_recompute: True``. Passes: ``{'feed_forward\.mul': True, 'feed_forward\.w2\.reshape': True}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swapconf.decide.lazy_inline import RUNS_ALONE, lazily_inlined, makes_several, recomputes_nothing
from swapconf.decide.patterns import primitives_below
from swapconf.decide.requests import operators
from swapconf.decide.rules.case import Case, finding
from swapconf.models.network import LayerTemplate
from swapconf.upstream.primitives import RESHAPE
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "recompute-nothing"


def check(case: Case) -> Iterator[Finding]:
    runs_alone = bool(case.versions.fact(RUNS_ALONE).value)
    if not runs_alone:
        yield from _alone(case)
    yield from _without_lazy_inline(case, runs_alone)
    by_origin: dict[Origin, list[bool]] = {}
    names: dict[Origin, dict[str, None]] = {}
    chosen: dict[LayerTemplate, set[str]] = {}  # by all entries together, so that their number counts once
    for entry in case.config.recompute.select:
        verdicts: list[bool] = []
        for template in case.templates_at(entry.layers):
            if template not in chosen:
                chosen[template] = _chosen(case, template)
            verdicts += _verdicts(entry.pattern, chosen[template], template)
        if verdicts or (entry.builtin and case.templates_at(entry.layers)):
            by_origin.setdefault(entry.origin, []).extend(verdicts)
            names.setdefault(entry.origin, {}).setdefault(entry.pattern)
    for origin, verdicts in by_origin.items():
        if any(verdicts):
            continue
        operators_named = ", ".join(f"'{name}'" for name in names[origin])
        if verdicts:
            cause = phrase(
                "recomputes nothing: the backward pass does not read the output of {operators}",
                operators=operators_named,
            )
            remedy = phrase("select the cell around them, or also the reshape that follows")
        else:  # built-in patterns are those of the legacy Llama
            cause = phrase(
                "recomputes nothing: `True` stands for {operators}, which no layer of this model has",
                operators=operators_named,
            )
            remedy = phrase("list operators or cells of this model instead, or leave it out")
        yield finding(RULE, Severity.WARNING, origin, cause, remedy)


def _without_lazy_inline(case: Case, runs_alone: bool) -> Iterator[Finding]:
    """``runs_alone``: nothing was told of operators by themselves."""
    if lazily_inlined(case.config, case.versions):
        return

    def is_untold(path: str, template: LayerTemplate) -> bool:
        return recomputes_nothing(path, template) and (runs_alone or not makes_several(path, template))

    for origin, operators_named in _selected(case, is_untold):
        cause = phrase(
            "recomputes nothing: with one stage and no gradient accumulation mindformers turns lazy inline "
            "off, and MindSpore does not run {operators} again then, nor within a recomputed cell around it",
            operators=operators_named,
        )
        remedy = phrase("select the cell around it instead, or raise gradient_accumulation_steps")
        yield finding(RULE, Severity.WARNING, origin, cause, remedy)


def _alone(case: Case) -> Iterator[Finding]:
    for origin, operators_named in _selected(case, makes_several):
        cause = phrase(
            "recomputes nothing: MindSpore {version} does not run {operators} again by itself",
            version=case.versions.mindspore,
            operators=operators_named,
        )
        yield finding(RULE, Severity.WARNING, origin, cause, phrase("select the cell around it instead"))


def _selected(case: Case, of: Callable[[str, LayerTemplate], bool]) -> Iterator[tuple[Origin, str]]:
    """The entries that select such operators, with these."""
    for entry in case.config.recompute.select:
        found = {
            path: None
            for template in case.templates_at(entry.layers)
            for path in operators(entry.pattern, template)
            if of(path, template)
        }
        if found:
            yield entry.origin, ", ".join(f"'{path}'" for path in found)


def _chosen(case: Case, template: LayerTemplate) -> set[str]:
    """The primitives that any entry selects, and Reshapes whose communication is: MindSpore marks these, too."""
    recompute = case.config.recompute
    selected = {
        primitive.path
        for entry in recompute.select
        for path in operators(entry.pattern, template)
        for primitive in primitives_below(path, template)
    }
    beside = {path for entry in recompute.select_comm for path in operators(entry.pattern, template)}
    return selected | {path for path in beside if template.by_path[path].type == RESHAPE}


def _verdicts(pattern: str, chosen: set[str], template: LayerTemplate) -> Iterator[bool]:
    """Per selected operator, whether its recompute has an effect. A cell may run more than the catalog names, as a
    rotary embedding does, and counts as effective, unless it is made for a single primitive: an activation."""
    for path in operators(pattern, template):
        inner = primitives_below(path, template)
        is_judged = template.by_path[path].kind == "primitive" or (len(inner) == 1 and inner[0].executed is True)
        yield not is_judged or _matters(inner[0].path, chosen, template, set())


def _matters(path: str, chosen: set[str], template: LayerTemplate, seen: set[str]) -> bool:
    if path in seen:
        return False
    seen.add(path)
    primitive = template.by_path[path]
    return primitive.saved is not False or any(
        consumer in chosen and _matters(consumer, chosen, template, seen) for consumer in primitive.consumers
    )
