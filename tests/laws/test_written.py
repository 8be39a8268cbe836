"""A plan that is written into a YAML is read again as it was, and nothing else of the YAML has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from swapconf.config.config import (
    Config,
    Dialect,
    FullRecompute,
    LayerIndices,
    LayerSwap,
    ListedSwap,
    OpSwap,
    SelectRecompute,
)
from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, RECOMPUTE_KEYS
from swapconf.config.nodes import Document, Entry
from swapconf.config.yaml_comments import comments
from swapconf.config.yaml_document import parse, read_text
from swapconf.config.yaml_lines import span, split
from swapconf.decide.compact import compact
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped, primitives_below
from swapconf.models.network import LayerTemplate
from swapconf.plan.written import MARK, write
from swapconf.study.study import Study, network_of, study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin, Severity, SwapconfError
from tests.helpers import CORPUS, ROOT

VERSIONS = Versions(mindspore="2.9.0", mindformers="1.9.0")
PREDICTION = "prediction.yaml"  # trains nothing, so that no plan is written into it
NOWHERE = Origin(file="law.yaml")
PLACES: dict[str, Any] = dict.fromkeys(("origin", "layers_origin", "prefetch_origin"), NOWHERE)
# what holds for swap as a whole, and is found as soon as it is on, and what does not compile, which `plan` never
# writes; a switch of the YAML that mindformers drops is told as soon as something is recomputed
OF_ALL = {
    "does-not-compile",
    "lazy-inline-off",
    "memory-optimize-level",
    "plain-mindformers-differs",
    "unsupported-runtime",
}


def readable(file: Path) -> bool:
    try:
        document = parse(read_text(file), file.name)
    except SwapconfError:
        return False
    study = study_document(document, VERSIONS, {})
    known = study.network is not None and bool(study.network.family)
    return known and not study.is_refused


@cache
def files() -> list[Path]:
    folders = [ROOT / "tests" / "examples", ROOT / "configs", *([CORPUS] if CORPUS else [])]
    named = (file for folder in folders for file in sorted(folder.rglob("*.yaml")))
    return [file for file in named if file.name != PREDICTION and readable(file)]


Mode = tuple[tuple[str, int], ...]  # path and prefetch, 0 for a recompute


def modes(template: LayerTemplate, random: Random) -> Mode:
    """Some operators that save something, none inside another that is recomputed."""
    useful = [
        operator.path
        for operator in template.operators
        if operator.path.count(".") < 2
        and any(below.saved for below in primitives_below(operator.path, template))
        and not (operator.kind == "primitive" and operator.preset_recompute)
    ]
    chosen: list[tuple[str, int]] = []
    for path in random.sample(["", *useful], k=min(random.randint(0, 3), len(useful))):
        atom = path, random.choice([0, 10, 20])
        around = [other for other in chosen if within(path, other[0]) and not other[1]]
        inside = [other for other in chosen if within(other[0], path)]
        if not around and (atom[1] or not inside):
            chosen.append(atom)
    return tuple(sorted(chosen))


def within(path: str, other: str) -> bool:
    return not other or path == other or path.startswith(f"{other}.")


Atom = tuple[str, int]  # as in a mode


def asked_of(study: Study, random: Random) -> dict[Atom, LayerIndices]:
    """The layers of each atom, of a few kinds of layers."""
    assert study.network is not None
    template = {layer.index: layer.template for layer in reversed(study.network.layers)}
    indices = sorted(template)
    kinds = [modes(template[random.choice(indices)], random) for _ in range(random.randint(1, 3))]
    asked: dict[Atom, list[int]] = {}
    first = 0
    while first < len(indices):
        mode, count = random.choice(kinds), random.randint(1, 4)
        for atom, index in product(mode, indices[first : first + count]):
            if not atom[0] or atom[0] in template[index].by_path:
                asked.setdefault(atom, []).append(index)
        first += count
    outer_first = sorted(asked, key=lambda atom: (atom[0].count(".") if atom[0] else -1, atom))
    return {atom: LayerIndices(tuple(asked[atom])) for atom in outer_first}


def planned(study: Study, random: Random) -> Config:
    """A config of a few kinds of layers, as lists of indices."""
    asked = asked_of(study, random)
    swaps = [(path, n, layers) for (path, n), layers in asked.items() if n]
    again = [(path, layers) for (path, n), layers in asked.items() if not n]
    return replace(
        study.config,
        swap=ListedSwap(
            layer_swap=tuple(LayerSwap(layers=layers, prefetch=n, **PLACES) for path, n, layers in swaps if not path),
            op_swap=tuple(
                OpSwap(pattern=escaped(path), layers=layers, prefetch=n, **PLACES) for path, n, layers in swaps if path
            ),
            given_entries=len(swaps),
        ),
        recompute=replace(
            study.config.recompute,
            full=next((FullRecompute(layers=layers, origin=NOWHERE) for path, layers in again if not path), None),
            select=tuple(
                SelectRecompute(pattern=escaped(path), layers=layers, origin=NOWHERE) for path, layers in again if path
            ),
            select_comm=(),
            select_exclude=(),
            select_comm_exclude=(),
        ),
    )


def ours(document: Document) -> Iterator[Entry]:
    """What a plan may change."""
    yield from (entry for key, entry in document.root.entries.items() if key in GRAPH_SECTIONS)
    model = document.root.get("model")
    settings = model.get("model_config") if model is not None else None
    names = {*(name for names in MCORE_SWAP_KEYS.values() for name in names), *RECOMPUTE_KEYS}
    if settings is not None:
        yield from (entry for key, entry in settings.entries.items() if key in names)


def outside(text: str, document: Document) -> list[str]:
    """The lines of no section for swap and recompute, but empty ones, of which one comes before a new section."""
    lines = split(text)
    inside: set[int] = set()
    for entry in ours(document):
        part = span(lines, entry)
        inside.update(range(part.first, part.end))
    return [line.rstrip("\n") for number, line in enumerate(lines) if number not in inside and line.strip()]


def said(text: str) -> Counter[str]:
    return Counter(comment.text.rstrip() for comment in comments(text) if MARK not in comment.text)


def weighed(study: Study) -> Counter[str]:
    return Counter(finding.rule for finding in study.findings if finding.severity is not Severity.NOTE)


@cache
def studied(file: Path) -> Study:
    return study_document(parse(read_text(file), file.name), VERSIONS, {})


def test_there_are_yamls_to_write_into() -> None:
    assert len(files()) >= 15


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_read_again_and_nothing_else_has_changed(seed: int) -> None:
    for file in files():
        random = Random(f"{seed} {file.name}")
        text = read_text(file)
        before = studied(file)
        if before.config.dialect is Dialect.PYNATIVE:
            continue
        wanted = planned(before, random)
        network = network_of(wanted, VERSIONS)
        assert network is not None
        strategy = expand(wanted, network, VERSIONS)
        made = compact(strategy, wanted, VERSIONS)
        written = write(text, before.document, made, "for 54 GB")
        document = parse(written, file.name)
        after = study_document(document, VERSIONS, {})
        assert after.strategy is not None
        if bool(made.recompute.select) != bool(wanted.recompute.select):
            continue  # a legacy Llama without flash attention flags some operators itself as soon as any is selected
        same = after.strategy.actions() == expand(made, network, VERSIONS).actions()
        assert same, (file.name, [str(finding) for finding in after.findings])
        assert outside(written, document) == outside(text, before.document)
        assert said(written) == said(text)
        new = set(weighed(after) - weighed(before)) - OF_ALL
        assert not new, (file.name, [str(finding) for finding in after.findings if finding.rule in new])
        assert write(written, document, made, "for 54 GB") == written
