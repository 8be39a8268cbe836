r"""tied-embeddings: a legacy Llama in several stages whose head reads the table of words.

``tie_word_embeddings: True`` (Qwen2.5-0.5B and 1.5B) makes the weight of the head that of the embedding
(models/llama/llama.py:521), so the first stage sends it to the last one. With lazy inline, which stages have unless
``disable_lazy_inline`` is set, MindSpore does not meet the parameter behind the ``Receive`` of it: with data
parallelism ``InsertMirrorOps`` stops ("The node Default/Receive-op0 is a abnormal node in inserting mirror node"),
without it ``HandleReceiveParam`` (frontend/parallel/pipeline_transformer) does ("The pointer[parameter_ptr] is null").
Dry runs of Qwen2.5-0.5B: so in five layouts of five, two of them without data parallelism. In two layouts without lazy
inline, in one untied, and of a tied Qwen3 of mcore all stages compile.

Fails: ``tie_word_embeddings: True`` with ``pipeline_stage: 2``. Passes: the same with ``pipeline_stage: 1``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import layout_of
from swapconf.decide.lazy_inline import lazily_inlined
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "tied-embeddings"
_KEY = "tie_word_embeddings"
_FACT = "tied_embeddings_stop_stages"
_FAMILY = "llama"  # the legacy one that knows the key


def check(case: Case) -> Iterator[Finding]:
    config, network = case.config, case.network
    stages, fact = config.pipeline.num_stages, case.versions.fact(_FACT)
    is_tied = config.model.legacy and config.model.settings.get(_KEY) is True
    if not is_tied or stages == 1 or layout_of(config) is None or not fact.value:
        return
    if network is not None and network.family == _FAMILY and lazily_inlined(config, case.versions):
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(f"model.model_config.{_KEY}"),
            phrase(
                "the head reads the table of words, which {stages} stages with lazy inline do not compile ({source})",
                stages=stages,
                source=fact.source,
            ),
            phrase(
                "write `pipeline_stage: 1`, or untie them; `disable_lazy_inline: True` in `model_config` compiles, "
                "too, but nothing is swapped then"
            ),
            stops_with=r"abnormal node in inserting mirror node|The pointer\[parameter_ptr\] is null",
        )
