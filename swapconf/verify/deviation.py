"""DEVIATION: what a log can say that the config does not, and the manual pages of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase, plural
from swapconf.words.units import runs

MISSING, DIFFERS, UNDECIDED, VOID = "log-line-missing", "log-line-differs", "log-line-undecided", "log-swap-void"
RECOMPUTED, NO_LOG, NO_LINE, UNREAD = "log-swap-recomputed", "log-missing", "log-without-strategy", "log-unread"
ABOVE, NO_PEAK, ENDED, UNKNOWN = "peak-above-predicted", "peak-not-logged", "log-of-no-step", "log-not-compared"
SEVERAL = "log-of-several-runs"

# (severity, manual page) by name
RULES: dict[str, tuple[str, str]] = {
    MISSING: ("error", "A worker log does not say that something is set which the config decides for a layer of that "
                       "rank: the rank ran another YAML or another version, or mindformers lost the section."),
    DIFFERS: ("error", "A worker log says another backward_prefetch than the config decides."),
    UNDECIDED: ("error", "A worker log says that something is set which the config does not ask for: the rank ran "
                         "another YAML, or the log also holds an older run."),
    VOID: ("error", "A worker log says that swap is set, and MindSpore warns in it that the swap has no effect, as the "
                    "layers are not lazily inlined."),
    RECOMPUTED: ("note", "A worker log, as of mindformers without swapconf, says that a swap is set where the config "
                         "also recomputes; recompute wins, so nothing is swapped there, as decided."),
    NO_LOG: ("error", "There is no log for a rank that the config describes, or there is one for a rank that it does "
                      "not describe."),
    NO_LINE: ("error", "A worker log holds no line about swap or recompute at all, although the config decides some: "
                       "the rank stopped before the model was built, or does not log at level INFO."),
    SEVERAL: ("warning", "A rank has several logs of the same kind in different folders, as of several runs: they are "
                         "read as one, so that a line of any of them counts for the rank."),
    UNREAD: ("warning", "A log was not read to its end, or it is not known to which rank it belongs."),
    ABOVE: ("warning", "A rank logged a higher peak than was predicted for it, by more than `--slack`. A dry run on "
                       "level 1 does not count operator workspace, which a card needs in addition."),
    ENDED: ("error", "A worker log gives the peak as 0: the process ended before its first step."),
    NO_PEAK: ("note", "A rank for which a peak is predicted did not log one; MindSpore logs it when the process ends."),
    UNKNOWN: ("note", "The operators of the model are not known, so the strategy lines are not compared."),
}

OTHER_RUN = phrase("run the YAML that is verified here, or verify the one that was run")


@dataclass(frozen=True)
class Deviation:
    """What is wrong, without the ranks."""

    rule: str
    origin: Origin
    message: str
    hint: str


def counted(noun: str, numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-7, 12``; of layers, too."""
    distinct = set(numbers)
    size, told = len(distinct), ", ".join(runs(distinct))
    return plural(size, "rank {numbers}", "ranks {numbers}", numbers=told) if noun == "rank" else \
        plural(size, "layer {numbers}", "layers {numbers}", numbers=told)
