r"""stage-offset: the layers cannot be dealt to the pipeline stages with this ``offset``.

Every stage gets num_layers // (stages x interleaves) layers plus its offset; the offsets must sum to the rest. A note
where the model is not in the catalog: it may deal other layers, too (DeepSeek-V3 of mindformers 1.5 deals those for
multi-token prediction).
Fails: 10 layers, 4 stages, ``offset: 0``. Passes: ``offset: [0, 1, 1, 0]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.decide.stages import BadDeal, deal
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "stage-offset"


def check(case: Case) -> Iterator[Finding]:
    count = case.config.model.num_layers
    if count is None:
        return
    try:
        deal(count, case.config.pipeline)
    except BadDeal as error:
        known = case.network is None or case.network.family is not None
        origin = case.config.origin("model.model_config.offset", "parallel_config.pipeline_stage")
        yield finding(
            RULE,
            Severity.ERROR if known else Severity.NOTE,
            origin,
            phrase("layers cannot be dealt to stages: {why}", why=error),
            phrase("give `offset` one number per stage that sums to the rest")
            if known
            else phrase(
                "nothing to do if this model, which is not in the catalog, deals other layers, too; the "
                "layers that counts select are a guess then"
            ),
        )
