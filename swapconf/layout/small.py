"""LAYOUT -> SMALL MODELS that are cut the same way: what one layer more takes more, a layer takes in all layouts of its
kind.

A search that knows that of each kind of layers leaves most layouts out before any of them is run, and a small model is
one child of some seconds, where a layout is several runs for each of its stages, of which one may have all layers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from swapconf.config.overrides import of_file
from swapconf.config.surroundings import NUM_LAYERS, in_model
from swapconf.layout.layout import Layout, first_given, plain
from swapconf.layout.runs import Candidate
from swapconf.layout.written import changes
from swapconf.study.study import Study, study_for_check

SIZES = (2, 3)  # layers of the last stage
_STAGES = (2, 4, 8, 16)  # as few as `check` lets pass: with more of them the last one does the same
_SMALLER = 2  # at least so many times fewer layers than there are
_MICRO_BATCHES = 4  # at the most: gradients are added up, and each is exchanged while the next one computes


def small(layout: Layout, count: int, unlike: int = 0, stages: int = _STAGES[0]) -> Layout:
    """``count``: of layers of its last stage; beside them it has those ``unlike`` them at the start."""
    stages = min(layout.stages, stages)
    return replace(
        layout,
        stages=stages,
        deal=((max(1, unlike), *(1,) * (stages - 2), count) if stages > 1 else (unlike + count,),),
        micro_batches=min(layout.micro_batches, max(stages, _MICRO_BATCHES)),
    )


def unlike_layers(study: Study) -> int | None:
    """How many layers at the start of a model are unlike the last one, as all others are; None where there are more
    kinds than that. What predicts further tokens stands beside layers."""
    network = study.network
    kinds = (
        [layer.template for layer in network.layers if layer.name == str(layer.index)] if network is not None else []
    )
    last = kinds[-1:]
    unlike = len(kinds) - len(list(takewhile(lambda kind: [kind] == last, reversed(kinds))))
    return unlike if kinds and len(set(kinds[:unlike])) <= 1 else None


def small_candidates(study: Study, given: Sequence[str], layout: Layout) -> tuple[Candidate, ...]:
    """The small models as YAMLs, one of each of `SIZES`. ``given``: changes of the command line. None where layers
    differ in more than the first ones, so that a few do not tell of all, where the model has few anyway, or where
    `check` finds an error in it."""
    unlike = unlike_layers(study)
    path = first_given(study.document, in_model(NUM_LAYERS))
    if unlike is None or plain(study.document, path) is None:  # a config.json gives it
        return ()
    fewer = dict.fromkeys(min(layout.stages, stages) for stages in _STAGES)
    pairs = (_pair(study, given, layout, (unlike, stages), path) for stages in fewer)
    return next(filter(None, pairs), ())


def _pair(study: Study, given: Sequence[str], layout: Layout, cut: tuple[int, int], path: str) -> tuple[Candidate, ...]:
    """``cut``: layers unlike the others, and stages, of `small`; ``path``: of the number of layers."""
    unlike, stages = cut
    if _SMALLER * sum(small(layout, max(SIZES), unlike, stages).layers_of_stage) > sum(layout.layers_of_stage):
        return ()
    found = []
    for count in SIZES:
        wanted = small(layout, count, unlike, stages)
        mine = (*given, *changes(study, wanted), f"{path}={sum(wanted.layers_of_stage)}")
        there = study_for_check(of_file(study.document.file, mine), os.environ)
        if there.is_refused or unlike_layers(there) != unlike:
            return ()
        found.append(Candidate(layout=wanted, changes=mine, study=there))
    return tuple(found)
