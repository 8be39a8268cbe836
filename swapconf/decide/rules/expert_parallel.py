r"""expert-parallel: experts of an mcore model that the ranks of ``expert_parallel`` cannot share out.

mindformers 1.7.0 to 1.9.0 stops where the model has none (parallel_core/transformer_config.py:2091, executed), where
their number is no multiple (training_graph/transformer/moe/moe_layer.py:58), and in semi-automatic mode where
``data_parallel`` times ``model_parallel`` is none (moe/ffn.py:189).

Fails: ``num_experts: 8`` with ``expert_parallel: 3``. Passes: ``expert_parallel: 4`` with ``data_parallel: 4``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import EXPERT_LAYER, layout_of_mcore, size_of_model
from swapconf.decide.rules.case import Case, finding
from swapconf.models import catalog
from swapconf.upstream.conditional import EXPERTS
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "expert-parallel"
_COUNT = ("num_experts", "n_routed_experts", "expert_num", "num_moe_experts")


def check(case: Case) -> Iterator[Finding]:
    layout, network = layout_of_mcore(case), case.network
    if layout is None or layout.experts is None or layout.experts == 1:
        return
    assert network is not None
    assert network.family is not None
    parts, experts = layout.experts, size_of_model(case, "experts", *_COUNT)
    origin = case.config.origin(*EXPERTS)
    family = catalog.load(network.family, case.versions.mindformers)
    if experts is None and family.layout.templates == ("dense",):
        yield finding(
            RULE,
            Severity.ERROR,
            origin,
            phrase("`expert_parallel: {parts}`, and the model has no experts: mindformers stops", parts=parts),
            phrase("remove it or write 1"),
            stops_with="num_moe_experts must be non None",
        )
    elif not any(layer.template.name == EXPERT_LAYER for layer in network.layers):
        return
    elif experts is not None and experts.value % parts:
        yield finding(
            RULE,
            Severity.ERROR,
            origin,
            phrase(
                "{experts}: no multiple of `expert_parallel: {parts}`, and mindformers stops",
                experts=experts.told,
                parts=parts,
            ),
            phrase("give `expert_parallel` a number that divides {experts}", experts=experts.value),
            stops_with="Expected num_moe_experts",
        )
    elif layout.by_hand and layout.data is not None and layout.data * layout.tensors % parts:
        yield finding(
            RULE,
            Severity.ERROR,
            origin,
            phrase(
                "experts are shared out among the ranks of data and tensors, and {ranks} ({data} of data_parallel x "
                "{tensors} of model_parallel) is no multiple of `expert_parallel: {parts}`: mindformers stops",
                ranks=layout.data * layout.tensors,
                data=layout.data,
                tensors=layout.tensors,
                parts=parts,
            ),
            phrase("give `expert_parallel` a number that divides {ranks}", ranks=layout.data * layout.tensors),
            stops_with="expert_model_parallel_size must divide",
        )
