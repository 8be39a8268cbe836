"""mindformers 2.1.0."""

from __future__ import annotations

from swapconf.upstream.release import Release

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
)
