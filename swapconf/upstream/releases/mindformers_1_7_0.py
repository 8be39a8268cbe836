"""mindformers 1.7.0."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="1.7.0",
    released_for="2.7.1",
    measured_with=("2.7.1", "2.7.2"),
    confirms=("mcore_drops_swap_config",),
    changes={
        "lazy_inline_variable_needed": FactValue(value=False, source=phrase("the variable does not exist")),
        "lazy_inline_off_without_pipeline": FactValue(
            value=True,
            source=phrase("BaseTrainer: pipeline_stage 1 and gradient_accumulation_steps 1 set disable_lazy_inline"),
        ),
        "run_steps_aside": FactValue(value=False, source=phrase("every name that it needs is there")),
    },
)
