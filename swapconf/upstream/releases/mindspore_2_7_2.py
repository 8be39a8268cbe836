"""MindSpore 2.7.2."""

from __future__ import annotations

from swapconf.upstream.release import Release

RELEASE = Release(
    package="mindspore",
    version="2.7.2",
    confirms=(
        "recomputed_consumer_voids_swap",
        "casts_for_products_stay",
        "runs_flash_attention_and_norms_again_alone",
    ),
)
