"""mindformers 2.0.0, the first with PyNative's sections."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="2.0.0",
    released_for="2.10.0",
    measured_with=("2.10.0",),
    confirms=(
        "lazy_inline_off_without_pipeline",
        "lazy_inline_variable_needed",
        "mcore_drops_swap_config",
        "run_steps_aside",
    ),
    changes={
        "mcore_refuses_cpu_offloading": FactValue(value=False, source=phrase("the converter takes both names")),
        "native_batch_is_a_step": FactValue(
            value=True,
            source=phrase(
                "pynative/trainer/trainer.py: a step takes one batch of the data set and cuts it into micro-batches "
                "(_split_micro_batch)"
            ),
            for_earlier=True,
        ),
        "native_layer_runs_to_its_end": FactValue(
            value=False,
            source=phrase("pynative/distributed/activation_checkpoint.py: whole layers stop early, as modules do"),
            for_earlier=True,
        ),
        "native_swap_keeps_inputs": FactValue(
            value=False,
            source=phrase("pynative/distributed/activation_checkpoint.py: a swap leaves attention masks alone"),
            for_earlier=True,
        ),
    },
)
