r"""op-no-match: an operator pattern that matches no operator of the layers it is for, so that nothing happens.

Paths start inside the decoder layer (``attention``, not ``model\.layers\.0\.attention``), every element must match a
whole name, upper and lower case count. mindformers does nothing and says nothing. An error for swap; a warning for
recompute, whose lists are often shared between variants of a model (``w1`` becomes ``w_gate_hidden`` with qkv_concat).

Fails: ``op_name: Attention``. Passes: ``op_name: attention``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import OpSwap
from swapconf.decide.patterns import suggestions, unescaped_dot
from swapconf.decide.requests import FLASH
from swapconf.decide.rules.case import Case, finding, matched, ranges, usable
from swapconf.words.findings import Finding, Severity
from swapconf.words.lookalikes import told
from swapconf.words.phrases import phrase

RULE = "op-no-match"


def check(case: Case) -> Iterator[Finding]:
    hints: dict[str, str] = {}  # the same mistake may stand in a thousand entries
    for entry in case.patterns():
        if not case.templates or not usable(entry.pattern):
            continue
        severity = Severity.ERROR if isinstance(entry, OpSwap) else Severity.WARNING
        if matched(entry.pattern, case.templates):
            here = case.templates_at(entry.layers)
            if here and not matched(entry.pattern, here):
                yield finding(
                    RULE,
                    severity,
                    entry.origin,
                    phrase(
                        "'{pattern}' matches no operator in {layers}, only in layers of another kind",
                        pattern=entry.pattern,
                        layers=ranges(case.chosen(entry.layers)),
                    ),
                    phrase("choose layers that have this operator"),
                )
            continue
        if any(unescaped_dot(entry.pattern, template) for template in case.templates):
            continue  # the rule op-unescaped-dot says it better
        if entry.pattern not in hints:
            hints[entry.pattern] = _hint(case, entry.pattern)
        yield finding(
            RULE,
            severity,
            entry.origin,
            phrase("'{pattern}' matches no operator of a {cell}", pattern=entry.pattern, cell=case.templates[0].cell),
            hints[entry.pattern],
        )


def _hint(case: Case, pattern: str) -> str:
    strange, meant = told(pattern), suggestions(pattern, case.templates)
    if strange:
        return phrase("{strange}; {hint}", strange=strange, hint=_meant(case, meant))
    if "flash" in pattern.lower() and not any(
        primitive.type == FLASH for template in case.templates for primitive in template.primitives
    ):
        return phrase(
            "this model has no flash attention: set `use_flash_attention: True` in model_config, or choose "
            "another operator"
        )
    return _meant(case, meant)


def _meant(case: Case, meant: tuple[str, ...]) -> str:
    if not meant:
        return phrase("top level: {names}", names=", ".join(_top_level(case)))
    if not meant[1:]:
        return phrase("'{name}' was probably meant", name=meant[0])
    return phrase(
        "'{name}' was probably meant (or {others})",
        name=meant[0],
        others=", ".join(f"'{other}'" for other in meant[1:]),
    )


def _top_level(case: Case) -> list[str]:
    names = [
        operator.path
        for template in case.templates
        for operator in template.operators
        if operator.kind == "cell" and "." not in operator.path
    ]
    return list(dict.fromkeys(names))
