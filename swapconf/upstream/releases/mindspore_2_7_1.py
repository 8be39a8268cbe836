"""MindSpore 2.7.1."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindspore",
    version="2.7.1",
    changes={
        "casts_for_products_stay": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                "in dry runs with 2.7.1 and 2.7.2 it casts what ChatGLM splits in its rotary embedding before that is "
                "multiplied with a table of 32 bits, and keeps these casts in layers that are recomputed"
            ),
        ),
        "runs_flash_attention_and_norms_again_alone": FactValue(
            value=False,
            for_earlier=True,
            source=phrase(
                "in dry runs with 2.7.2 flash attention and a norm of Qwen3-MoE that select_recompute names by "
                "themselves lose their scopes, and neither runs again"
            ),
        ),
        "recomputed_consumer_voids_swap": FactValue(
            value=False, source=phrase("in dry runs the tensor is moved, released and feeds the recomputed operator")
        ),
    },
)
