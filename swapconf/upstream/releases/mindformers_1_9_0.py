"""mindformers 1.9.0, with which most was measured and whose cells the catalog was made from."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="1.9.0",
    released_for="2.9.0",
    measured_with=("2.9.0",),
    confirms=(
        "fused_optimizers_gone",
        "lazy_inline_off_without_pipeline",
        "lazy_inline_variable_needed",
        "mcore_drops_swap_config",
        "run_steps_aside",
    ),
    changes={
        "mcore_refuses_cpu_offloading": FactValue(
            value=True, source=phrase("all five mcore families stop with Mapping Conflicts, whatever the value")
        ),
        "mcore_refuses_recompute_keys": FactValue(
            value=True,
            for_earlier=True,
            source=phrase(
                "all five mcore families stop with Mapping Conflicts with what recompute_config always brings"
            ),
        ),
    },
)
