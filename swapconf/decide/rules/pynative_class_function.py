r"""pynative-class-function: a path that reaches a function of a module's class, in PyNative mode.

mindformers puts a cell around each function that a path matches. MindSpore takes no cell under a name that the class
of the module has, so the run stops with a KeyError while the model is built. In mindformers 2.1.0 that meets every
path that ends in ``.*``, as all modules have a ``reset_parameter``; in 2.0.0, layers with experts, whose auxiliary loss
has a ``construct``. Source: MindSpore 2.10.0, nn/cell.py, insert_child_to_cell; known for the models of the catalog.

Fails with 2.1.0: ``recompute_comm: {select_module: {'mlp\..*': ['0-3']}}``.
Passes: ``{'mlp\..*matmul': ['0-3']}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.modules import by_layer_in_parallel, by_pattern, modules_of
from swapconf.decide.rules.case import PYNATIVE, Case, finding, ranges
from swapconf.decide.strategy import ModuleOutcome
from swapconf.models.pynative_modules import LayerModules
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-class-function"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    known = modules_of(case.config, case.versions.mindformers)
    layers: dict[tuple[str, str], list[int]] = {}
    example: dict[tuple[str, str], str] = {}
    for layer, here in by_layer_in_parallel(case.config, known):
        for one in here:
            if fixed := _fixed(one, known(layer)):
                layers.setdefault((one.kind, one.module), []).append(layer)
                example.setdefault((one.kind, one.module), fixed[0])
    for kind, entries in by_pattern(case.config):
        for entry in entries:
            if found := layers.pop((kind, entry.pattern), None):
                yield finding(
                    RULE,
                    Severity.ERROR,
                    entry.origin,
                    phrase(
                        "mindformers stops in {layers}: '{pattern}' reaches {path}, a function of its module's class, "
                        "and MindSpore lets no cell be put around that",
                        layers=ranges(found),
                        pattern=entry.pattern,
                        path=example[kind, entry.pattern],
                    ),
                    phrase("name the operators that are meant, such as {example}", example="'mlp\\..*matmul'"),
                )


def _fixed(one: ModuleOutcome, modules: LayerModules | None) -> list[str]:
    """What of an entry's paths cannot be wrapped."""
    if modules is None or one.effect not in ("recompute", "swap"):
        return []
    return [path for path in one.paths if path in modules.fixed]
