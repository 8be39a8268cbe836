r"""pynative-no-match: a module path that matches nothing in layers it is for, in PyNative mode.

The whole path from the layer on is one regular expression; upper and lower case count. mindformers warns while it
builds the model, goes on, and nothing happens. Communication is recomputed operator by operator: a path that matches
modules only has no effect there. Known for the models of the catalog (Qwen3, DeepSeek-V3, DeepSeek-V4), as mindformers
2.0.0 and 2.1.0 build them.

Fails: ``select_module: {feed_forward: ['0-3']}``. Passes: ``select_module: {mlp: ['0-3']}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from swapconf.decide.module_outcomes import NO_MATCH
from swapconf.decide.module_paths import literal
from swapconf.decide.modules import by_layer_in_parallel, by_pattern, modules_of
from swapconf.decide.rules.case import PYNATIVE, Case, finding, ranges
from swapconf.models.pynative_modules import Known
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-no-match"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    known = modules_of(case.config, case.versions.mindformers)
    layers: dict[tuple[str, str], list[int]] = {}
    reasons: dict[tuple[str, str], str] = {}
    for layer, here in by_layer_in_parallel(case.config, known):
        for one in here:
            if one.reason.rule == NO_MATCH:
                layers.setdefault((one.kind, one.module), []).append(layer)
                reasons[one.kind, one.module] = one.reason.text
    for kind, entries in by_pattern(case.config):
        for entry in entries:
            if found := layers.pop((kind, entry.pattern), None):
                yield finding(
                    RULE,
                    Severity.WARNING,
                    entry.origin,
                    phrase(
                        "'{pattern}' has no effect in {layers}: {why}",
                        pattern=entry.pattern,
                        layers=ranges(found),
                        why=reasons[kind, entry.pattern],
                    ),
                    _of_operators(known, found[0], entry.pattern) or _hint(known, found[0], entry.pattern),
                )


def _of_operators(known: Known, layer: int, pattern: str) -> str:
    """Of a module where communication is recomputed: an operator in it; "" of what is no module."""
    here, module = known(layer), literal(pattern)
    if here is None or module not in here.cells:
        return ""
    inside = sorted(path for path in here.functions - here.fixed if path.startswith(f"{module}."))
    if not inside:
        return phrase("name operators; this module has none of its own")
    example = next((path for path in inside if path.endswith(".matmul")), inside[0])
    return phrase("name operators in it, such as '{example}'", example=example.replace(".", "\\."))


def _hint(known: Known, layer: int, pattern: str) -> str:
    here = known(layer)
    names = sorted(here.cells) if here is not None else []
    if near := get_close_matches(pattern.replace("\\.", "."), names, 1, 0.5):
        return phrase("'{name}' was probably meant", name=near[0])
    return phrase("top level: {names}", names=", ".join(name for name in names if "." not in name))
