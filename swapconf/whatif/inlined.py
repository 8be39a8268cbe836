"""TRACE + STUDY -> is the run of the trace compiled with lazy inline, as that of the config is?

mindformers turns lazy inline off where a step has neither stages nor accumulation, and swap keeps it on (see
`decide.lazy_inline`). MindSpore launches kernels in another order then, which is known only of a run that has it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapconf.config.config import Config, Dialect, ListedSwap, SwapOff
from swapconf.decide.lazy_inline import lazily_inlined
from swapconf.study.study import Study
from swapconf.trace import trace_folder
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

NOTHING_SWAPPED = ("swap_config.swap=True", "swap_config.layer_swap=[]", "swap_config.op_swap=[]")
SWAP_ON = "swap-on"  # the folder beside those of the ranks, with the same of a run where nothing is swapped
RULE = "trace-inlined-otherwise"


def is_turned_by_swap(config: Config, versions: Versions) -> bool:
    """Whether swap decides if a run of the config is compiled with lazy inline; never in PyNative mode, which compiles
    nothing."""
    if config.dialect is Dialect.PYNATIVE:
        return False
    off, on = (lazily_inlined(replace(config, swap=swap), versions) for swap in (SwapOff(), ListedSwap()))
    return on != off


def swap_on_beside(folder: Path) -> Path | None:
    """The trace of the same rank with swap on and nothing swapped, where `swapconf plan` has made one."""
    beside = folder.parent / SWAP_ON / folder.name
    return beside if (beside / trace_folder.BLOCKS).exists() else None


def inlined_otherwise(folder: str, recorded: Mapping[str, Any], study: Study, making: str) -> Finding | None:
    """``recorded``: the settings of the run that left the trace. ``making``: the command that makes one without swap
    and recompute."""
    section = recorded.get("swap_config")
    swap_on = bool(section.get("swap")) if isinstance(section, Mapping) else False
    config, versions = study.config, study.versions
    run = replace(config, swap=ListedSwap() if swap_on else SwapOff())
    if not recorded or lazily_inlined(config, versions) == lazily_inlined(run, versions):
        return None
    if config.swap_on:
        sets = " ".join(f"--set '{setting}'" for setting in NOTHING_SWAPPED)
        off = making.replace("--set swap_config.swap=False", sets)
        message = phrase("swap turns lazy inline on, and the run of this trace is without it: some peaks are 3 % off")
        return _finding(folder, message, off)
    message = phrase("without swap lazy inline is off, and the run of this trace has it: some peaks are 5 % off")
    return _finding(folder, message, making)


def _finding(folder: str, message: str, command: str) -> Finding:
    return Finding(
        origin=Origin(file=folder),
        rule=RULE,
        severity=Severity.NOTE,
        message=message,
        hint=phrase("make a trace of such a run: {command}", command=command),
    )
