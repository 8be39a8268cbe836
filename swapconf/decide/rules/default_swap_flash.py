r"""default-swap-without-flash: the default strategy swaps flash attention, and this model has none.

Fails on Llama: ``swap_config: {swap: True}`` with ``use_flash_attention: False``.
Passes: ``use_flash_attention: True``, or ``op_swap`` with operators that the model has.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import DefaultSwap
from swapconf.decide.requests import flash_attention
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "default-swap-without-flash"


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    if (
        isinstance(swap, DefaultSwap)
        and case.network
        and case.templates
        and not any(flash_attention(case.network.flash_attention, template) for template in case.templates)
    ):
        yield finding(
            RULE,
            Severity.ERROR,
            swap.origin,
            phrase("the default strategy swaps flash attention, and this model has none: nothing would be swapped"),
            phrase("set `use_flash_attention: True` in model_config, or list operators in op_swap"),
        )
