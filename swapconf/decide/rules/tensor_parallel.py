r"""tensor-parallel: heads that the ranks of ``model_parallel`` cannot share out.

mindformers stops while it builds the model: the attention heads, and the key/value heads unless attention is latent,
have to be a multiple of ``model_parallel``; so has ``intermediate_size`` of a legacy Llama without experts. There the
heads have to be a multiple of it times the degree of Ulysses, too. Source: mindformers 1.9.0 (1.7.0 and 1.8.0 alike),
parallel_core/transformer_config.py:2035, parallel_core/training_graph/transformer/attention.py:177,
models/llama/llama_transformer.py:180 and llama_layer.py:438.

Sizes that nothing gives are those of the family.

Fails: ``num_heads: 8`` with ``model_parallel: 3``. Passes: ``num_heads: 8`` with ``model_parallel: 4``.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from swapconf.decide.layout import HEADS, KV_HEADS, READ_SINCE, Layout, Sized, layout_of, size, size_of_model
from swapconf.decide.rules.case import Case, finding
from swapconf.models.cells import LATENT_ATTENTION
from swapconf.upstream.conditional import CONTEXTS, TENSORS
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

RULE = "tensor-parallel"
_LEGACY = "llama"  # the only legacy family whose attention and MLP check it
_STOPS_WITH = "must be a multiple of"


def check(case: Case) -> Iterator[Finding]:
    layout = layout_of(case.config)
    if layout is None or case.network is None or case.network.family is None:
        return
    legacy = case.config.model.legacy
    if legacy and case.network.family == _LEGACY:
        sizes, parts = _of_llama(case), layout.tensors * (layout.ulysses or 1)
    elif not legacy and reached(case.versions.mindformers, READ_SINCE):
        sizes, parts = _of_mcore(case), layout.tensors
    else:
        return
    wrong = [one for one in sizes if one.value % (parts if one.key in (*HEADS, *KV_HEADS) else layout.tensors)]
    if wrong:
        yield _finding(case, layout, parts, sizes, wrong)


def _of_llama(case: Case) -> list[Sized]:
    config, settings = case.config, case.config.model.settings
    if settings.get("use_3d_tensor_parallel") or settings.get("fine_grain_interleave") not in (None, 0, 1):
        return []  # cut otherwise, with checks of their own
    has_experts = bool(config.model.moe) or settings.get("moe_config") is not None
    names = (HEADS[:1], KV_HEADS[:1], ("intermediate_size",) if not has_experts else ())
    return [one for keys in names if (one := size(config, *keys)) is not None]


def _of_mcore(case: Case) -> list[Sized]:
    heads = size_of_model(case, "heads", *HEADS)
    grouped = size_of_model(case, "kv_heads", *KV_HEADS, "num_query_groups")
    operators = (operator for template in case.templates for operator in template.operators)
    latent = any(operator.type.startswith(LATENT_ATTENTION) for operator in operators)
    counts = heads is not None and grouped is not None and grouped.value < heads.value and not latent
    return [one for one in (heads, grouped if counts else None) if one is not None]


def _finding(case: Case, layout: Layout, parts: int, sizes: list[Sized], wrong: list[Sized]) -> Finding:
    by_ulysses = all(one.value % layout.tensors == 0 for one in wrong)
    common = gcd(*(one.value for one in sizes))
    fitting = [str(number) for number in range(1, min(common, 64) + 1) if common % number == 0]
    named = joined(", ", [one.told for one in wrong])
    if by_ulysses:
        return finding(
            RULE,
            Severity.ERROR,
            case.config.origin(*CONTEXTS),
            phrase(
                "{sizes}: no multiple of {parts}, the ranks that share out the heads ({tensors} of model_parallel x "
                "{ulysses} of the context); mindformers stops",
                sizes=named,
                parts=parts,
                tensors=layout.tensors,
                ulysses=layout.ulysses,
            ),
            phrase("choose both so that their product divides the heads: {numbers}", numbers=", ".join(fitting)),
            stops_with=_STOPS_WITH,
        )
    return finding(
        RULE,
        Severity.ERROR,
        case.config.origin(*TENSORS),
        phrase(
            "{sizes}: no multiple of `model_parallel: {parts}`, and mindformers stops",
            sizes=named,
            parts=layout.tensors,
        ),
        phrase("give `model_parallel` one of {numbers}", numbers=", ".join(fitting)),
        stops_with=_STOPS_WITH,
    )
