r"""pynative-heads: attention heads that do not go into the ranks that share them out, in PyNative mode.

Tensor parallelism of mindformers 2.1.0 gives each rank whole heads, and of attention with groups whole groups
(`num_key_value_heads`); context parallelism by `ulysses` or `hybrid` shares out the heads of such a rank once more.
Otherwise mindformers stops while it parallelizes the model. Source: mindformers 2.1.0,
pynative/base_models/gpt/parallelize.py. 2.0.0 looks at none of this before the first step.

Fails with 2.1.0: ``parallelism: {tensor_parallel: 4, sequence_parallel: True}`` with ``model: {model_type: qwen3,
num_attention_heads: 16, num_key_value_heads: 2}``. Passes: ``tensor_parallel: 2``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import versions
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-heads"
DIALECTS = PYNATIVE
_FIRST = "2.1.0"
_GROUPS = ("num_key_value_heads", "num_query_groups")
_WITHOUT_GROUPS = frozenset({"deepseek_v3", "deepseek_v4"})


def check(case: Case) -> Iterator[Finding]:
    if not versions.reached(case.versions.mindformers, _FIRST):
        return
    config = case.config
    model, ranks, layout = config.model.section, config.pipeline.model_parallel, config.layout
    heads = config.model.count("num_attention_heads")
    has_groups = model.get("model_type") not in _WITHOUT_GROUPS and not model.get("multi_latent_attention")
    groups = config.model.count(*_GROUPS) if has_groups else None
    if heads is not None and heads % ranks and model.get("use_flash_attention") is not False:
        yield _of_tensors(case, phrase("{count} attention heads", count=heads), ranks)
    elif groups is not None and groups % ranks:
        yield _of_tensors(case, phrase("{count} groups of heads (num_key_value_heads)", count=groups), ranks)
    elif heads is not None and (exchanged := _exchanged(case)) and (heads // ranks) % exchanged:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("parallelism.ulysses_degree_in_cp", "parallelism.context_parallel"),
            phrase(
                "mindformers stops: context parallelism by {method} shares out heads, and {heads} heads of a rank do "
                "not go into {ranks} equal parts",
                method=layout.method,
                heads=heads // ranks,
                ranks=exchanged,
            ),
            phrase("write a degree that divides them, or `context_parallel_method: colossal`, which shares out none"),
        )


def _exchanged(case: Case) -> int:
    """The ranks that share out the heads of one rank; 0 for none."""
    config = case.config
    if config.pipeline.context_parallel == 1 or config.model.has_sparse_attention:
        return 0
    given = {"ulysses": config.pipeline.context_parallel, "hybrid": 0}
    return (config.layout.ulysses or given[config.layout.method]) if config.layout.method in given else 0


def _of_tensors(case: Case, what: str, ranks: int) -> Finding:
    return finding(
        RULE,
        Severity.ERROR,
        case.config.origin("parallelism.tensor_parallel"),
        phrase("mindformers stops: {what} do not go into tensor_parallel {ranks}", what=what, ranks=ranks),
        phrase("write a degree that divides them"),
    )
