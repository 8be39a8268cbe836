r"""plain-mindformers-differs: works under ``swapconf run``; plain mindformers 1.9.0 refuses or ignores it.

Measured: nested lists in ``layers``; ``{pattern: True}`` or ``{pattern: False}`` in select_recompute with swap on; a
last pattern element that matches every name (``.*``), on which mindformers stops with an AttributeError about
``cell_init_args``; exclude lists with swap on, which it does not apply; ``mp_comm_recompute: False``, which it drops.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import EveryLayer
from swapconf.decide.patterns import BadPattern, last_fits
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "plain-mindformers-differs"
_ATTRIBUTE_THAT_RAISES = "cell_init_args"


def check(case: Case) -> Iterator[Finding]:
    config, recompute = case.config, case.config.recompute
    for entry in case.patterns():
        if _matches_every_name(entry.pattern):
            yield finding(
                RULE,
                Severity.WARNING,
                entry.origin,
                phrase(
                    "plain mindformers stops here with \"no attribute '{name}'\": the last element matches every name",
                    name=_ATTRIBUTE_THAT_RAISES,
                ),
                phrase("run it through swapconf, or name the operators"),
                stops_with=f"no attribute '{_ATTRIBUTE_THAT_RAISES}'",
            )
    if config.swap_on:
        for selected in (*recompute.select, *recompute.select_comm):
            if isinstance(selected.layers, EveryLayer) and not selected.builtin:
                yield finding(
                    RULE,
                    Severity.WARNING,
                    selected.origin,
                    phrase("with swap on, plain mindformers takes only a list here, though True is documented"),
                    phrase("run it through swapconf, or list every layer index"),
                    stops_with="must be list when enabling swap",
                )
        for excluded in (*recompute.select_exclude, *recompute.select_comm_exclude):
            yield finding(
                RULE,
                Severity.NOTE,
                excluded.origin,
                phrase("plain mindformers applies no exclusion while swap is on"),
                phrase("run it through swapconf, which does"),
            )
    if not recompute.mp_comm_recompute and (recompute.full is not None or recompute.select):
        yield finding(
            RULE,
            Severity.NOTE,
            config.origin("recompute_config.mp_comm_recompute"),
            phrase("plain mindformers drops mp_comm_recompute"),
            phrase("run it through swapconf, which passes it on"),
        )


def _matches_every_name(pattern: str) -> bool:
    try:
        return last_fits(pattern, _ATTRIBUTE_THAT_RAISES)
    except BadPattern:
        return False
