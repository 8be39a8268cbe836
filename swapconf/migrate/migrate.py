"""YAML -> YAML in another dialect, composed: read, convert, rewrite, read again, compare what is decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from swapconf.config import base_config, yaml_config
from swapconf.config.config import Config, DefaultSwap, Dialect, SwapOff
from swapconf.config.dialects import dialect_of
from swapconf.config.nodes import Document
from swapconf.config.rewriting import CannotRewrite, asked, reread
from swapconf.decide.expand import expand
from swapconf.decide.module_outcomes import NO_MATCH
from swapconf.decide.modules import decide_parallel, modules_of
from swapconf.migrate.report import Item, anything_lost, carried, changed, lost, to_check
from swapconf.migrate.rewrite_lines import rewrite
from swapconf.migrate.to_graph import to_graph
from swapconf.migrate.to_pynative import to_pynative
from swapconf.migrate.whole_pynative import whole
from swapconf.study.study import network_of
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError, has_errors
from swapconf.words.phrases import phrase, plural
from swapconf.words.units import runs


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationOrder:
    """``prefetch``: in the unit of the target, where the units differ. ``source``: None for what the file spells.
    ``whole``: to PyNative from graph mode, the rest of the YAML, too."""

    target: Dialect
    source: Dialect | None = None
    versions: Versions
    prefetch: int = 1
    whole: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """``before`` and ``after``: the configs of both texts, each read as its own dialect."""

    before: Config
    after: Config
    text: str
    items: tuple[Item, ...]

    @property
    def lost(self) -> bool:
        return anything_lost(self.items)


def migrate(text: str, file: str, order: MigrationOrder) -> Migration:
    """The YAML ``text`` in the dialect that ``order`` asks for.

    Raises SwapconfError when its sections have errors, or cannot be rewritten without touching something else.
    """
    document = base_config.of_text(text, file)
    source = order.source or dialect_of(document, legacy=False)
    mindformers = order.versions.mindformers
    config, findings = yaml_config.from_document(document, source, mindformers)
    if has_errors(findings):
        raise SwapconfError([finding for finding in findings if finding.severity is Severity.ERROR])
    if source is order.target:
        return Migration(before=config, after=config, text=text, items=())
    made, items = _converted(config, order)
    try:
        written = rewrite(text, document, made)
        again = _verified(written, document, made, mindformers)
    except CannotRewrite as error:
        raise SwapconfError(
            [
                Finding(
                    origin=Origin(file=file),
                    rule="migrate-layout",
                    severity=Severity.ERROR,
                    message=str(error),
                    hint=error.hint,
                )
            ]
        ) from None
    if not anything_lost(items):
        items += _difference(document, config, base_config.of_text(written, file), made, order.versions)
    if order.whole and made.dialect is Dialect.PYNATIVE:
        sections: Any = base_config.of_text(written, file).root.plain()
        written, more = whole(document, config, sections)
        again, _ = yaml_config.from_document(base_config.of_text(written, file), made.dialect, mindformers)
        assert asked(again) == asked(made), "what is not rewritten has no part in swap and recompute"
        items += (*more, *_without_effect(again, mindformers))
    return Migration(before=config, after=again, text=written, items=items)


def _without_effect(config: Config, mindformers: str) -> Iterator[Item]:
    """Paths of operators that the PyNative model does not have by that name."""
    known = modules_of(config, mindformers)
    for one in decide_parallel(config, known):
        if one.reason.rule == NO_MATCH:
            here = known(one.layers[0])
            names = sorted(here.cells) if here is not None else []
            yield lost(
                Origin(file=config.file),
                phrase(
                    "'{path}' matches nothing of the PyNative model in layers {layers}",
                    path=one.module,
                    layers=", ".join(runs(one.layers)),
                ),
                phrase(
                    "name a module that it has: {names}",
                    names=", ".join(name for name in names if not name.count(".") or name.endswith("attention")),
                ),
            )


def _converted(config: Config, order: MigrationOrder) -> tuple[Config, tuple[Item, ...]]:
    if order.target is Dialect.PYNATIVE:
        return to_pynative(config, order.prefetch, order.versions.mindformers, is_whole=order.whole)
    if config.dialect is Dialect.PYNATIVE:
        return to_graph(config, order.target, order.prefetch)
    return replace(config, dialect=order.target), _within_graph_mode(config, order)


def _within_graph_mode(config: Config, order: MigrationOrder) -> tuple[Item, ...]:
    """Legacy and mcore have the same keys in other places; what matters is which model reads them."""
    if isinstance(config.swap, SwapOff):
        return ()
    origin = config.origin("swap_config.swap", "swap_config")
    items = [carried(origin, phrase("swap, as it stands, with its comments"))]
    if order.target is Dialect.MCORE:
        if config.model.legacy:
            items.append(
                lost(
                    origin,
                    phrase(
                        "this YAML builds a legacy model, which reads no swap in model_config: it would have no effect"
                    ),
                    phrase(
                        "set `use_legacy: False` where that model exists, and name the operators of its "
                        "mcore layers (`swapconf explain`)"
                    ),
                )
            )
        if isinstance(config.swap, DefaultSwap):
            items.append(
                to_check(
                    origin,
                    phrase(
                        "plain mindformers {version} ignores default_prefetch in mcore "
                        "models, and its default pattern matches nothing there",
                        version=order.versions.mindformers,
                    ),
                    phrase("run it through swapconf, which applies both, or list the operator in op_swap"),
                )
            )
    elif not config.model.legacy:
        items.append(
            changed(
                origin,
                phrase(
                    "plain mindformers {version} does not read swap_config for mcore models",
                    version=order.versions.mindformers,
                ),
                phrase("run it through swapconf"),
            )
        )
    return tuple(items)


def _verified(text: str, document: Document, made: Config, mindformers: str) -> Config:
    """The config of the new text. Raises CannotRewrite unless it is ``made``, and all else is as before."""
    config = reread(text, document, made.dialect, mindformers)
    if asked(config) != asked(made):
        raise CannotRewrite(
            phrase("the rewritten sections would not mean what was decided"), phrase("give each key a line of its own")
        )
    return config


def _difference(
    document: Document, config: Config, again: Document, made: Config, versions: Versions
) -> tuple[Item, ...]:
    """What is decided otherwise after all, so that no change is silent."""
    if Dialect.PYNATIVE in (config.dialect, made.dialect):
        before, after = kinds(config, versions), kinds(made, versions)
    else:
        before = decided(yaml_config.from_document(document)[0], versions)
        after = decided(yaml_config.from_document(again)[0], versions)
    wrong = [site for site in before if before[site] != after.get(site)]
    if not wrong:
        return ()
    layer, path = wrong[0]
    text = plural(
        len(wrong),
        "{count} operator is decided otherwise; the first is {operator} in layer {layer}: {before}, and then {after}",
        "{count} operators are decided otherwise; the first is {operator} in layer {layer}: {before}, and then {after}",
        operator=path,
        layer=layer,
        before=before[wrong[0]],
        after=after.get(wrong[0]),
    )
    return (lost(Origin(file=config.file), text, phrase("compare both with `swapconf explain`")),)


def decided(config: Config, versions: Versions) -> dict[tuple[str, str], str]:
    """The action at every site (layer, primitive) in graph mode, in words; empty for a model without a catalog."""
    network = network_of(config, versions)
    if network is None:
        return {}
    return {site: str(action) for site, action in expand(config, network, versions).actions().items()}


def kinds(config: Config, versions: Versions) -> dict[tuple[str, str], str]:
    """The same without prefetches and causes, so that both units can be compared; PyNative as its graph-mode form."""
    if config.dialect is Dialect.PYNATIVE:
        config, _ = to_graph(config, Dialect.LEGACY)
    return {site: action.partition("(")[0] for site, action in decided(config, versions).items()}
