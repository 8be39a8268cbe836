r"""unknown-family: swapconf has no operator catalog for this model, or the YAML does not say how many layers it has.

Operator names are then not checked; everything else is. The families that are known: ``swapconf families``. Where the
family is known but not this variant of its layers, the nearest one is checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.errors import Finding, Severity
from swapconf.phrases import phrase
from swapconf.resolve.rules.case import Case, finding

RULE = "unknown-family"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    recompute = config.recompute
    if not (config.swap_on or recompute.full is not None or recompute.select or recompute.select_comm):
        return
    origin = config.origin("model.model_config.type", "model.model_config.model_type", "model.arch.type",
                           "model.model_config", "model")
    if config.model.num_layers is None:
        yield finding(RULE, Severity.NOTE, origin, phrase("the YAML does not give the number of layers"),
                      phrase("layer indices and operator names are not checked unless model_config has num_layers"))
    elif case.network is not None and case.network.family is None:
        yield finding(RULE, Severity.NOTE, origin, phrase("this model is not in swapconf's catalog"),
                      phrase("operator names are not checked"))
    elif case.network is not None and case.network.approximated:
        yield finding(RULE, Severity.NOTE, origin,
                      phrase("the catalog has no layer with this value of {settings}; the nearest one was checked",
                             settings=", ".join(case.network.approximated)),
                      phrase("operator names may differ a little from the real model"))
