#!/usr/bin/env python3
"""What a search of layouts costs before its first dry run, and how that grows with cards and layers.

    python scripts/bench/bench_layout.py YAML [--cards 8,64,512,4096] [--layers 8,32,128]

Each card trains as many sequences as in the YAML, so that there are layouts for any number of cards. Told are how many
layouts there are, how many of them `check` finds no error in, how many ranks all of these ask for with composed stages
and without, and the seconds of the processor that this took; ratios are to the first line. Nothing is run.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

from swapconf.config import overrides
from swapconf.layout.judged import Judged
from swapconf.layout.layout import Layout, layout_of
from swapconf.layout.legal import layouts, wishes
from swapconf.layout.runs import RunSettings
from swapconf.plan.judge import Judge
from swapconf.study.study import Study, study_for_check
from swapconf.words.findings import has_errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="YAML")
    parser.add_argument("--cards", default="8,64,512,4096", metavar="N,N")
    parser.add_argument("--layers", default="8,32,128", metavar="N,N")
    options = parser.parse_args()
    first: float | None = None
    for cards, layers in _cases(options.cards, options.layers):
        changes = (f"model.model_config.{_layers_key(options.file)}={layers}",)
        study = study_for_check(overrides.of_file(options.file, changes), os.environ)
        if has_errors(study.findings):
            print(f"{cards} cards, {layers} layers: the YAML has errors with so many layers, skipped", flush=True)
            continue
        seconds, told = _timed(study, changes, cards)
        first = first or seconds
        print(
            f"{cards} cards, {layers} layers: {told}; {seconds:.2f} s, {seconds / first:.2f} of the first", flush=True
        )


def _cases(cards: str, layers: str) -> list[tuple[int, int]]:
    """All cards with the first number of layers, then all further layers with the first cards."""
    many_cards, many_layers = ([int(part) for part in text.split(",")] for text in (cards, layers))
    return [(one, many_layers[0]) for one in many_cards] + [(many_cards[0], one) for one in many_layers[1:]]


def _layers_key(file: str) -> str:
    given = study_for_check(overrides.of_file(file, ()), os.environ).config.given
    return "num_hidden_layers" if "model.model_config.num_hidden_layers" in given else "num_layers"


def _timed(study: Study, changes: tuple[str, ...], cards: int) -> tuple[float, str]:
    start = time.process_time()
    own = layout_of(study)
    found = layouts(_scaled(own, cards), cards, wishes([], []))
    world = Judged(study, changes, RunSettings(), lambda _: {}, _no_judge)
    world.checked(found)
    good = [layout for layout in found if layout in world.candidates]
    composed, every = world.ranks(good), world.ranks(good, truly=True)
    told = f"{len(found)} layouts, {len(good)} without errors, {every} ranks, {composed} of them to run"
    return time.process_time() - start, told


def _scaled(own: Layout, cards: int) -> Layout:
    """With as many sequences for each card as the YAML has."""
    return replace(own, micro_batches=max(own.micro_batches * cards // own.cards, 1))


def _no_judge(*_: object) -> Judge:
    raise AssertionError("nothing is run here")


if __name__ == "__main__":
    main()
