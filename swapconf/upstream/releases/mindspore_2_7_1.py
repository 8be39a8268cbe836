"""MindSpore 2.7.1."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindspore",
    version="2.7.1",
    changes={
        "recomputed_consumer_voids_swap": FactValue(
            value=False, source=phrase("in dry runs the tensor is moved, released and feeds the recomputed operator")
        )
    },
)
