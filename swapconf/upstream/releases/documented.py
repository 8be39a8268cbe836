"""What documentation says and no release was measured for: it holds until a release says otherwise."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

MINDSPORE = Release(
    package="mindspore",
    version="0.0",
    changes={
        "recomputed_consumer_voids_swap": FactValue(
            value=True, source=phrase("documented (MindSpore Transformers, Fine-Grained Activations SWAP, rule 2)")
        ),
        "stopped_recompute_keeps_a_tensor": FactValue(
            value=False, source=phrase("no release before 2.10.0 is known to keep one")
        ),
    },
)

MINDFORMERS = Release(
    package="mindformers",
    version="0.0",
    changes={
        "lazy_inline_variable_needed": FactValue(
            value=True, source=phrase("documented (without pipeline parallelism, set ENABLE_LAZY_INLINE_NO_PIPELINE=1)")
        ),
        "lazy_inline_off_without_pipeline": FactValue(
            value=False, source=phrase("its BaseTrainer leaves that to ENABLE_LAZY_INLINE_NO_PIPELINE")
        ),
        "fused_optimizers_gone": FactValue(value=False, source=phrase("mindformers/core/optim/optim.py of 1.5.0")),
        "mcore_refuses_cpu_offloading": FactValue(
            value=False, source=phrase("no release before 1.9.0 is known to refuse it")
        ),
    },
)
