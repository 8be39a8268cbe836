"""mindformers 1.8.0."""

from __future__ import annotations

from swapconf.upstream.release import Release

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
)
