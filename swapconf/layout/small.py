"""LAYOUT -> SMALL MODELS that are cut the same way: what one layer more takes more, a layer takes in all layouts of its
kind.

A search that knows that of each kind of layers leaves most layouts out before any of them is run, and a small model is
one child of some seconds, where a layout is several runs for each of its stages, of which one may have all layers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from swapconf.config.overrides import of_file
from swapconf.config.surroundings import NUM_LAYERS, in_model
from swapconf.layout.layout import Layout, first_given, plain
from swapconf.layout.runs import Candidate
from swapconf.layout.written import changes
from swapconf.study.study import Study, study_for_check

SIZES = (2, 3)  # layers of each stage
_SMALLER = 2  # at least so many times fewer than there are
_MICRO_BATCHES = 2  # at the least, so that gradients are added up as in the layout


def small(layout: Layout, count: int) -> Layout:
    """``count``: of layers of each stage."""
    return replace(
        layout,
        deal=((count,) * layout.stages,),
        micro_batches=min(layout.micro_batches, max(layout.stages, _MICRO_BATCHES)),
    )


def small_candidates(study: Study, given: Sequence[str], layout: Layout) -> tuple[Candidate, ...]:
    """The small models as YAMLs, one of each of `SIZES`. ``given``: changes of the command line. None where layers
    differ, so that a few do not tell of all, where the model has few anyway, or where `check` finds an error in it."""
    network, config = study.network, study.config
    if network is None or config.model.num_mtp_layers or len(network.templates) != 1:
        return ()
    if _SMALLER * max(SIZES) * layout.stages > sum(layout.layers_of_stage):
        return ()
    path = first_given(study.document, in_model(NUM_LAYERS))
    if plain(study.document, path) is None:  # a config.json gives it
        return ()
    found = []
    for count in SIZES:
        wanted = small(layout, count)
        mine = (*given, *changes(study, wanted), f"{path}={sum(wanted.layers_of_stage)}")
        there = study_for_check(of_file(study.document.file, mine), os.environ)
        if there.is_refused:
            return ()
        found.append(Candidate(layout=wanted, changes=mine, study=there))
    return tuple(found)
