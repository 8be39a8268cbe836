r"""prefetch-too-large: a backward_prefetch at which memory gets worse, or the compiler may crash.

backward_prefetch N counts operators. The device copy is released 3N operators after the copy to the host, and the
tensor returns N operators before its first use, so a large N keeps two copies. Measured on a 4-layer Llama with
layer_swap: from N = 100 on the peak is higher than without swap; for N between about 81 and 209 times the number of
layers MindSpore's compiler crashes; above that no prefetch is made at all. These are estimates for other models.

Fails: ``backward_prefetch: 500``. Passes: ``backward_prefetch: 20``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import DefaultSwap, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase, plural

RULE = "prefetch-too-large"
NO_GRAPH_IS_THAT_LONG = 1_000_000  # operators


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    entries: tuple[LayerSwap | OpSwap | DefaultSwap, ...] = ()
    if isinstance(swap, DefaultSwap):
        entries = (swap,)
    elif isinstance(swap, ListedSwap):
        entries = (*swap.layer_swap, *swap.op_swap)
    seen = set()
    for entry in entries:
        origin = (
            case.config.origin("swap_config.default_prefetch")
            if isinstance(entry, DefaultSwap)
            else entry.prefetch_origin
        )
        told = _verdict(case, entry.prefetch)
        if told and origin not in seen:
            seen.add(origin)
            yield finding(
                RULE,
                told[0],
                origin,
                phrase("prefetch {prefetch}: {verdict}", prefetch=entry.prefetch, verdict=told[1]),
                phrase("common values are 1 to 50; start with 10"),
                stops_with="^SIGSEGV ",
            )


def _verdict(case: Case, prefetch: int) -> tuple[Severity, str] | None:
    layers = case.config.model.num_layers or 1
    worse, crash, end = (
        case.versions.fact(name)
        for name in ("prefetch_worse_from", "prefetch_crash_from_per_layer", "prefetch_crash_to_per_layer")
    )
    if prefetch > NO_GRAPH_IS_THAT_LONG:
        return Severity.ERROR, phrase("no training graph has that many operators; everything would return at once")
    if prefetch > max(end.value * layers, worse.value):
        return Severity.WARNING, phrase(
            "probably longer than the whole graph, where no prefetch is made and every "
            "tensor returns at once (estimated; {source})",
            source=end.source,
        )
    if prefetch >= max(crash.value * layers, worse.value):
        return Severity.WARNING, plural(
            layers,
            "may crash MindSpore's compiler for {count} layer (estimated; {source})",
            "may crash MindSpore's compiler for {count} layers (estimated; {source})",
            source=crash.source,
        )
    if prefetch >= worse.value:
        return Severity.WARNING, phrase(
            "device memory may get worse than without swap: two copies live ({source})", source=worse.source
        )
    return None
