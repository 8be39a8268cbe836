"""mindformers 1.6.0, beside which `swapconf run` steps aside."""

from __future__ import annotations

from swapconf.upstream.release import FactValue, Release
from swapconf.words.phrases import phrase

RELEASE = Release(
    package="mindformers",
    version="1.6.0",
    released_for="2.7.0",
    measured_with=("2.7.2",),
    changes={
        "mcore_drops_swap_config": FactValue(
            value=True,
            for_earlier=True,
            source=phrase("TransformerOpParallelConfig.to_dict() has no 'swap', so mcore models never see swap_config"),
        ),
        "fused_optimizers_gone": FactValue(value=True, source=phrase("it has AdamW, Adam, Came and others")),
        "run_steps_aside": FactValue(
            value=True,
            for_earlier=True,
            source=phrase("its models have another LayerSetting than those of later releases"),
        ),
    },
)
