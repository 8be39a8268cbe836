"""MindSpore 2.9.0, with which most was measured."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindspore",
    version="2.9.0",
    confirms=("recomputed_consumer_voids_swap",),
    changes={
        "casts_for_products_stay": FactValue(
            value=False, source=phrase("in dry runs a product takes factors of two types, and nothing is cast for it")
        ),
        "runs_flash_attention_and_norms_again_alone": FactValue(
            value=True, source=phrase("in dry runs both run again, as the trace shows")
        ),
        "recomputed_query_norm_crashes": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                'select_recompute of the norm of keys of Qwen3, or of queries that share none, ends with "The '
                'pointer[prim] is null", in six layouts of six with lazy inline, and in none of seven without'
            ),
        ),
        "recomputed_flash_attention_crashes": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                'select_recompute of flash attention of ChatGLM ends with "PrimFunc_Reshape init failed", in six '
                "layouts of six with lazy inline, and in none of one without"
            ),
        ),
        "recomputed_input_crashes": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                "of 556 dry runs all but one of those that ended like that had this, and none of the others on that "
                "stage"
            ),
        ),
        "tied_embeddings_stop_stages": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                "a parameter that one stage receives from another is not met behind lazy inline: five dry runs of five "
                "stop, two of two without it compile"
            ),
        ),
        "prefetch_two_copies_from": FactValue(
            value=23,
            for_earlier=True,
            source=phrase(
                "on a 4-layer Llama the last layer holds two device copies from N = 23 to 66 on, the first from 156 to "
                "204"
            ),
        ),
        "prefetch_worse_from": FactValue(
            value=100,
            for_earlier=True,
            source=phrase(
                "on a 4-layer Llama with layer_swap, N = 50 peaks at 203.82 MB, N = 100 at 287.59 MB, no swap at "
                "281.83 MB"
            ),
        ),
        "prefetch_crash_from_per_layer": FactValue(
            value=81,
            for_earlier=True,
            source=phrase(
                "on a 4-layer Llama with layer_swap, the compiler ends with SIGSEGV for N from 324 (81 per layer) to "
                "835"
            ),
        ),
        "prefetch_crash_to_per_layer": FactValue(
            value=209,
            for_earlier=True,
            source=phrase(
                "on a 4-layer Llama with layer_swap, above N = 835 (209 per layer) no prefetch edge is added at all"
            ),
        ),
    },
)
