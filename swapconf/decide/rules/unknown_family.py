r"""unknown-family: swapconf has no operator catalog for this model, or the YAML does not say how many layers it has.

Operator names are then not checked; everything else is. The families that are known: ``swapconf families``. Where the
family is known but not this variant of its layers, the nearest one is checked. A warning where a class is nearly one of
the catalog, or one of the other kind: without ``use_legacy: False`` mindformers builds a legacy model.

Fails: ``model_config: {type: LlamaConfg, num_layers: 4}``. Passes: ``type: LlamaConfig``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.decide.rules.case import Case, finding
from swapconf.models.network import NearModel, Network, UnknownModel
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "unknown-family"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    recompute = config.recompute
    if not (config.swap_on or recompute.full is not None or recompute.select or recompute.select_comm):
        return
    network = case.network
    if config.model.num_layers is None:
        yield finding(
            RULE,
            Severity.NOTE,
            config.origin("model.model_config", "model.arch", "model"),
            phrase("the YAML does not give the number of layers"),
            phrase("layer indices and operator names are not checked unless model_config has num_layers"),
        )
    elif network is not None and network.near is not None and not network.is_known:
        yield _near(case, network.near)
    elif network is not None and not network.is_known:
        yield _unknown(case, network)
    elif network is not None and network.approximated:
        settings = network.approximated
        yield finding(
            RULE,
            Severity.NOTE,
            config.origin(*_paths(settings), "model.model_config", "model"),
            phrase(
                "the catalog has no layer with this value of {settings}; the nearest one was checked",
                settings=", ".join(settings),
            ),
            phrase("operator names may differ a little from the real model"),
        )


def _paths(settings: Sequence[str]) -> list[str]:
    """mindformers passes on `moe_config` of the top level."""
    return [path for name in settings for path in (f"model.model_config.{name}", name)]


def _unknown(case: Case, network: Network) -> Finding:
    unknown, unchecked = network.unknown or UnknownModel(""), phrase("operator names are not checked")
    origin = case.config.origin(f"model.{unknown.path}", "model.model_config", "model.arch", "model")
    if unknown.beside:
        message = phrase("`{name}` is another model than `{other}`", name=unknown.written, other=unknown.beside)
        return finding(
            RULE, Severity.NOTE, origin, message, phrase("name both of one; {unchecked}", unchecked=unchecked)
        )
    return finding(
        RULE,
        Severity.NOTE,
        origin,
        phrase("`{name}` is not in swapconf's catalog", name=unknown.written)
        if unknown.written
        else phrase("this model is not in swapconf's catalog"),
        phrase("{unchecked}; a class of your own can be given a family in the settings", unchecked=unchecked),
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
