r"""unknown-family: swapconf has no operator catalog for this model, or the YAML does not say how many layers it has.

Operator names are then not checked; everything else is. The families that are known: ``swapconf families``. Where the
family is known but not this variant of its layers, the nearest one is checked. A warning where a class is nearly one of
the catalog, or one of the other kind: without ``use_legacy: False`` mindformers builds a legacy model.

Fails: ``model_config: {type: LlamaConfg, num_layers: 4}``. Passes: ``type: LlamaConfig``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.models.network import NearModel
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "unknown-family"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    recompute = config.recompute
    if not (config.swap_on or recompute.full is not None or recompute.select or recompute.select_comm):
        return
    origin = config.origin(
        "model.model_config.type",
        "model.model_config.model_type",
        "model.model_config.architectures",
        "model.arch.type",
        "model.model_config",
        "model",
    )
    if config.model.num_layers is None:
        yield finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase("the YAML does not give the number of layers"),
            phrase("layer indices and operator names are not checked unless model_config has num_layers"),
        )
    elif case.network is not None and case.network.near is not None:
        yield _near(case, case.network.near)
    elif case.network is not None and case.network.family is None:
        yield finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase("this model is not in swapconf's catalog"),
            phrase("operator names are not checked"),
        )
    elif case.network is not None and case.network.approximated:
        yield finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase(
                "the catalog has no layer with this value of {settings}; the nearest one was checked",
                settings=", ".join(case.network.approximated),
            ),
            phrase("operator names may differ a little from the real model"),
        )


def _near(case: Case, near: NearModel) -> Finding:
    config = case.config
    origin = (
        config.origin("use_legacy")
        if near.name == near.written and "use_legacy" in config.origins
        else config.origin(f"model.{near.path}")
    )
    unchecked = phrase("operator names are not checked")
    if near.name != near.written:
        return finding(
            RULE,
            Severity.WARNING,
            origin,
            phrase("`{name}` is not in swapconf's catalog", name=near.written),
            phrase("`{name}` was probably meant; {unchecked}", name=near.name, unchecked=unchecked),
        )
    if near.legacy:
        return finding(
            RULE,
            Severity.WARNING,
            origin,
            phrase("`{name}` is a legacy model, and `use_legacy` is False", name=near.name),
            phrase("remove `use_legacy: False`, or name an mcore model; {unchecked}", unchecked=unchecked),
        )
    message = (
        phrase("`{name}` is an mcore model, and `use_legacy` is True", name=near.name)
        if "use_legacy" in config.origins
        else phrase(
            "`{name}` is an mcore model, and without `use_legacy` mindformers builds a legacy one", name=near.name
        )
    )
    return finding(
        RULE,
        Severity.WARNING,
        origin,
        message,
        phrase("write `use_legacy: False` at the top level; {unchecked}", unchecked=unchecked),
    )
