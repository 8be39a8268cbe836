"""mindformers 1.8.0."""

from __future__ import annotations

from swapconf.upstream.release import Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="1.8.0",
    released_for="2.7.2",
    measured_with=("2.7.2",),
    confirms=(
        "lazy_inline_off_without_pipeline",
        "lazy_inline_variable_needed",
        "mcore_drops_swap_config",
        "run_steps_aside",
    ),
    operators={
        "llama": "",
        "qwen3": phrase("in 1.8.0 one primitive, mul_mscale, is of another type"),
        "deepseek_v3": phrase("in 1.8.0, 18 layer templates differ"),
    },
)
