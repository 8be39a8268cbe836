r"""mcore: settings that mindformers' mcore models (``use_legacy: False``) treat differently from the legacy ones.

mindformers 1.9.0 drops swap_config on the way to an mcore model, and its default strategy matches nothing there (notes:
under ``swapconf run`` both work). It stops at recompute_slice_activation, at micro_batch_interleave_num and (with
stages) seq_split_num above 1, at ``cpu_offloading`` and ``cpu_offloading_num_layers`` in model_config, and at every key
of recompute_config that stands in model_config (errors; parallel_core/config_converter.py, executed: "Mapping
Conflicts", whatever the value).

Fails: ``model_config: {cpu_offloading: True}``. Passes: ``model_config: {swap: True, layer_swap: [...]}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import DefaultSwap
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "mcore"
_INSIDE = "model.model_config."
_SPLITS_REFUSED = "1.7.0"  # trainer/base_trainer.py
_OFFLOADING = {"cpu_offloading": "swap", "cpu_offloading_num_layers": "layer_swap"}


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.model.legacy:
        return
    if config.recompute.recompute_slice_activation:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("recompute_config.recompute_slice_activation"),
            phrase("mcore models refuse recompute_slice_activation"),
            phrase("remove it or write False"),
            stops_with="`recompute_slice_activation` is not supported",
        )
    yield from _refused(case)
    yield from _of_legacy_step(case)
    origin = config.origin("swap_config.swap")
    if config.swap_on and origin.path.startswith("swap_config"):
        fact = case.versions.fact("mcore_drops_swap_config")
        if fact.value:
            yield finding(
                RULE,
                Severity.NOTE,
                origin,
                phrase(
                    "plain mindformers {version} ignores swap_config for mcore models ({source})",
                    version=case.versions.mindformers,
                    source=fact.source,
                ),
                phrase("run it through swapconf, which applies it"),
            )
    elif isinstance(config.swap, DefaultSwap) and origin.path == f"{_INSIDE}swap":
        yield finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase(
                "plain mindformers {version} swaps nothing here: its default pattern has two names, and "
                "flash attention stands three deep in mcore layers",
                version=case.versions.mindformers,
            ),
            phrase(
                "run it through swapconf, which finds it, or list '{pattern}' in op_swap",
                pattern=r"self_attention\.core_attention\.flash_attention",
            ),
        )


def _of_legacy_step(case: Case) -> Iterator[Finding]:
    """Ways to split a batch that mindformers has for legacy models alone (``_wrap_network_with_tool_cells``)."""
    given = case.config.given
    for path, counts in (
        ("micro_batch_interleave_num", True),
        ("parallel_config.seq_split_num", case.config.pipeline.num_stages > 1),
    ):
        value, key = given.get(path), path.rpartition(".")[2]
        if counts and isinstance(value, int) and value > 1 and reached(case.versions.mindformers, _SPLITS_REFUSED):
            yield finding(
                RULE,
                Severity.ERROR,
                case.config.origin(path),
                phrase("mcore models refuse `{key}: {value}`", key=key, value=value),
                phrase("remove it or write 1"),
                stops_with=f"{key} > 1, is not supported when use_legacy=False",
            )


def _refused(case: Case) -> Iterator[Finding]:
    for name, origin in case.config.origins.items():
        if not origin.path.startswith(_INSIDE):
            continue
        written = origin.path.removeprefix(_INSIDE)
        if written in _OFFLOADING:
            yield from _conflict(
                case,
                "mcore_refuses_cpu_offloading",
                origin,
                written,
                phrase("write `{key}` instead", key=_OFFLOADING[written]),
            )
        elif name.startswith("recompute_config.") and not case.config.recompute.recompute_slice_activation:
            yield from _conflict(
                case,
                "mcore_refuses_recompute_keys",
                origin,
                written,
                phrase("move it to `recompute_config:` at the top level"),
            )


def _conflict(case: Case, fact_name: str, origin: Origin, written: str, hint: str) -> Iterator[Finding]:
    fact = case.versions.fact(fact_name)
    if fact.value:
        yield finding(
            RULE,
            Severity.ERROR,
            origin,
            phrase(
                "mindformers {version} stops at `{key}` in model_config ({source})",
                version=case.versions.mindformers,
                key=written,
                source=fact.source,
            ),
            hint,
            stops_with=f"current convert is {written}:",
        )
