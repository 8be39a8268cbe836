"""MindSpore 2.10.0."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindspore",
    version="2.10.0",
    confirms=("recomputed_consumer_voids_swap", "casts_for_products_stay"),
    changes={
        "stopped_recompute_keeps_a_tensor": FactValue(
            value=True,
            source=phrase(
                "one for each cell and step whose recompute stops early, in common/recompute.py; told in "
                "github.com/mindspore-ai/hyper-parallel/issues/661"
            ),
        )
    },
)
