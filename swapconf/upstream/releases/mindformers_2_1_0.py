"""mindformers 2.1.0."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="2.1.0",
    released_for="2.11.0",
    measured_with=("2.10.0",),
    confirms=(
        "lazy_inline_off_without_pipeline",
        "lazy_inline_variable_needed",
        "mcore_drops_swap_config",
        "run_steps_aside",
    ),
    changes={
        "native_batch_is_a_step": FactValue(
            value=False,
            source=phrase(
                "pynative/trainer/trainer.py: a step takes a batch of the data set for each micro-batch (_next_batch)"
            ),
        ),
        "native_layer_runs_to_its_end": FactValue(
            value=True,
            source=phrase(
                "pynative/distributed/activation_checkpoint.py: a whole layer that runs again does so to its end "
                "(early_stop=False)"
            ),
        ),
        "native_swap_keeps_inputs": FactValue(
            value=True,
            source=phrase(
                "pynative/distributed/activation_checkpoint.py: a swap leaves alone what the decoder is given beside "
                "hidden states (_SwapPolicy)"
            ),
        ),
    },
)
