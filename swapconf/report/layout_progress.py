"""SEARCH of layouts -> TEXT: how much there is to do, and how far it is."""

from __future__ import annotations

from math import inf, isfinite

from swapconf.layout.found import Fate, Found
from swapconf.layout.layout import Layout
from swapconf.layout.search import LAST
from swapconf.words.phrases import phrase, plural


def beforehand(
    layouts: int,
    needed: int,
    composed: int,
    most: int,
    seconds: tuple[float, float],
    children: int,
    instead: Layout | None = None,
) -> str:
    """How much there is to do. ``needed``: ranks that it would take to run all layouts, without those that can be
    ``composed`` from runs of others; ``most``: ranks that may be dry-run; ``seconds``: that each takes at least and at
    most, about; ``children``: at once; ``instead``: what is run first where the YAML is of other cards."""
    told = phrase(
        "{layouts} can be trained on these cards; at most {ranks} of {all_ranks} are dry-run, first those of "
        "{first}, {minutes} with {children} at once (estimated), and the plans of the best; Ctrl-C ends it with the "
        "best so far, and a second start goes on from there",
        layouts=plural(layouts, "{count} layout", "{count} layouts"),
        ranks=plural(min(needed, most), "{count} rank", "{count} ranks"),
        all_ranks=needed + composed,
        minutes=_between(*(_minutes(min(needed, most), each, children) for each in seconds)),
        children=children,
        first=phrase("the YAML itself") if instead is None else instead.name,
    )
    if not composed:
        return told
    return phrase(
        "{told}; {composed} can be composed from runs of others, of which those of the best {last} are run, too",
        told=told,
        composed=plural(composed, "{count} rank", "{count} ranks"),
        last=LAST,
    )


def shifting(most: int) -> str:
    """The same where layers are shifted between stages."""
    return phrase(
        "layers are shifted between the stages as long as that is faster; at most {ranks} are dry-run; Ctrl-C ends it "
        "with the best so far, and a second start goes on from there",
        ranks=plural(most, "{count} rank", "{count} ranks"),
    )


def time_left(ranks: int, seconds: float, children: int) -> str:
    """``seconds``: that one rank took; ``children``: at once."""
    return phrase(
        "at most {ranks} more, about {minutes} with {children} at once, and the plans of the best",
        ranks=plural(ranks, "{count} rank", "{count} ranks"),
        minutes=_told(_minutes(ranks, seconds, children)),
        children=children,
    )


def not_composed(count: int, why: str) -> str:
    """What took longer than was told."""
    return plural(
        count,
        "{count} stage that was to be composed had to be run: {why}",
        "{count} stages that were to be composed had to be run: {why}",
        why=why,
    )


def _between(least: int, most: int) -> str:
    return phrase("{least} to {most} minutes", least=least, most=most) if least < most else _told(most)


def _told(minutes: int) -> str:
    return plural(minutes, "{count} minute", "{count} minutes")


def _minutes(ranks: int, seconds: float, children: int) -> int:
    return max(1, round(ranks * seconds / 60 / max(children, 1)))


def so_far(found: Found) -> str:
    """How far a search is."""
    tried = plural(len(found.tried), "{count} layout was run", "{count} layouts were run")
    refused = sum(item.fate is Fate.REFUSED for item in found.lost)
    told = phrase("{tried}, {planned} planned", tried=tried, planned=len(found.finals))
    left_out = sum(item.fate in (Fate.TOO_LARGE, Fate.COMPUTES) for item in found.lost)
    if left_out:
        told = phrase("{told}, {count} left out before a run", told=told, count=left_out)
    if refused:
        told = phrase("{told}, {refused} refused by MindSpore or mindformers", told=told, refused=refused)
    known = [(item.cost_us, item.layout.name) for item in found.finals]
    known += [(item.coarse_us, item.layout.name) for item in found.tried]
    us, name = min(known, default=(inf, ""))
    if not isfinite(us):
        return told
    return phrase("{told}; best so far: {layout}, a step of {step:.3f} ms", told=told, layout=name, step=us / 1000)
