"""JUDGE -> PLANNED: the plan for a budget, with what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import sqrt

from swapconf.plan import simple
from swapconf.plan.judge import NOISE, Judge, Scored
from swapconf.plan.menu import menu
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan, uniform
from swapconf.plan.regular import regular
from swapconf.plan.search import Search
from swapconf.plan.settled import best_of_all, settled
from swapconf.words.phrases import mark, phrase

LOWEST_PLACED, LOWEST_SETTLED = 40, 5  # plans, where none fits
MENU_ASKED, SEARCH_ASKED, REGULAR_ASKED = 400, 500, 150  # plans, with an effort of 1
FEW_LAYERS, USUAL_LAYERS = 8, 16  # up to these the fewer there are the fewer ways there are to mix them
USUAL_KERNELS = 10_000  # of a step; up to these as many plans are asked for
# families whose plans held in true runs (docs/evidence/plans.md); others are always confirmed
EVIDENCE = frozenset({"llama"})


def to_ask(judge: Judge, effort: float) -> tuple[int, int, int]:
    """How many plans are asked for at most while modes are tried, while plans are searched, and while the best is made
    regular: fewer of large models, of which each takes longer, and of few layers."""
    layers = min(max(len(judge.layers), FEW_LAYERS), USUAL_LAYERS)
    factor = effort * sqrt(layers / USUAL_LAYERS) * min(1.0, sqrt(USUAL_KERNELS / max(judge.evaluator.num_kernels, 1)))
    return int(MENU_ASKED * factor), int(SEARCH_ASKED * factor), int(REGULAR_ASKED * factor)


class Verdict(Enum):
    """What a plan comes to."""

    PLANNED = mark("planned")
    NOT_NEEDED = mark("nothing is needed: without swap and recompute it fits")
    FULL = mark("full recompute is as good as anything else that fits")
    IMPOSSIBLE = mark("no plan fits")


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryWorth:
    """One entry of a plan: what it would take more, and how much less time, without it. Bytes on the rank that is
    tightest, with fragments."""

    atom: Atom
    layers: tuple[int, ...]
    saved_bytes: int
    cost_us: float
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class Planned:
    """``chosen``: where nothing fits the plan that needs least. ``simple``: by name what people use today, as far as it
    was asked; ``modes``: what was decided between. ``fastest``: what was found before layers were put into ranges;
    None where nothing was searched. ``is_interrupted``: the search was ended early."""

    judge: Judge = field(repr=False)
    verdict: Verdict
    chosen: Scored
    simple: Mapping[str, Scored]
    modes: tuple[Mode, ...] = ()
    fastest: Scored | None = None
    is_interrupted: bool = False

    @property
    def needed_bytes(self) -> int:
        """The least budget of a card that ``chosen`` fits in."""
        return needed_bytes(self.judge, self.chosen.plan)

    @property
    def worth(self) -> tuple[EntryWorth, ...]:
        return tuple(_worth(self.judge, self.chosen, atom) for atom in self.chosen.entries)


def plan(
    judge: Judge,
    effort: float = 1.0,
    progress: Callable[[int], None] = lambda asked: None,
    modes: Iterable[Mode] | None = None,
    also: Iterable[Plan] = (),
) -> Planned:
    """The best plan of a judge.

    Args:
        effort: Scales how many plans are asked for.
        progress: Called with the number of plans that were asked for so far.
        modes: What to decide between; None: found by trying what the layers have.
        also: More plans to start from.
    """
    keep = judge.score(uniform(KEEP, judge.network))
    if keep.fits:
        return Planned(judge=judge, verdict=Verdict.NOT_NEEDED, chosen=keep, simple={phrase(simple.NONE): keep})
    today: dict[str, Plan] = {phrase(name): made for name, made in simple.fixed(judge).items()}
    first: list[tuple[str, Plan]] = []
    chosen = list(modes) if modes is not None else []
    for_menu, for_search, for_regular = to_ask(judge, effort)
    is_interrupted = False
    try:
        if modes is None:
            chosen = [item.mode for item in menu(judge, for_menu)]
        progress(judge.asked)
        first = list(simple.first_layers(judge))
        search = Search(judge, [*chosen, RECOMPUTED], progress)
        search.run(for_search, [*today.values(), *(made for _, made in first), *also])
    except KeyboardInterrupt:  # what was found until then is not lost
        is_interrupted = True
    best = best_of_all(judge, judge.score(uniform(RECOMPUTED, judge.network)))
    same = simple.best_uniform(judge, chosen)
    if same is not None:
        today[phrase(simple.SAME)] = same
    plain = [*today.values(), *(made for _, made in first)]
    if not is_interrupted and best.fits:
        best = settled(judge, best, plain)
    if not best.fits:
        best = _lowest_settled(judge, plain)
        if not is_interrupted and best.fits:  # in MindSpore's own order alone; so may others
            best = settled(judge, best, plain)
    fastest = best
    if not is_interrupted and best.fits:
        try:
            best = regular(judge, best, plain, for_regular, progress)
        except KeyboardInterrupt:
            is_interrupted = True
    known = _known(judge, today, first)
    if best is not fastest and _is_slower(judge, best, known.values()):
        best = judge.score(fastest.plan)  # what is simple fits after all, by what was learned meanwhile
    return Planned(
        judge=judge,
        verdict=verdict(judge, best),
        chosen=best,
        simple=known,
        modes=tuple(chosen),
        fastest=fastest,
        is_interrupted=is_interrupted,
    )


def _known(judge: Judge, today: Mapping[str, Plan], first: Iterable[tuple[str, Plan]]) -> dict[str, Scored]:
    """What people use today, scored by all that is known at the end; of several with one name the best."""
    known = {name: judge.anew(made) for name, made in today.items()}
    for name, made in first:
        found = judge.anew(made)
        if name not in known or found.rank < known[name].rank:
            known[name] = found
    return known


def _is_slower(judge: Judge, best: Scored, simple: Iterable[Scored]) -> bool:
    """Than something simple that fits."""
    fitting = (item.found.step_us for item in simple if item.fits and judge.allows(item.plan))
    return best.found.step_us > (1 + NOISE) * min(fitting, default=best.found.step_us)


def chosen_again(planned: Planned) -> Planned:
    """The same after its judge was asked for more, as for a frontier: what is better than the plan takes its place."""
    judge = planned.judge
    best = best_of_all(judge, planned.chosen)
    plain = [item.plan for item in planned.simple.values()]
    if not best.fits:
        return replace(planned, chosen=_lowest_settled(judge, plain))
    if best is planned.chosen:
        return planned
    fastest = settled(judge, best, plain)
    best = regular(judge, fastest, plain, to_ask(judge, 1.0)[-1]) if fastest.fits else fastest
    return replace(planned, chosen=best, fastest=fastest, verdict=verdict(judge, best))


def needed_bytes(judge: Judge, made: Plan) -> int:
    """The least budget of a card that a plan fits in."""
    return judge.limits.needed_bytes(judge.pool_bytes(made))


def verdict(judge: Judge, best: Scored) -> Verdict:
    """What it comes to that this is the best."""
    if not best.fits:
        return Verdict.IMPOSSIBLE
    return Verdict.FULL if best.plan == uniform(RECOMPUTED, judge.network) else Verdict.PLANNED


def _lowest_settled(judge: Judge, always: Iterable[Plan]) -> Scored:
    """What needs least where nothing fits: by MindSpore's own order, in which others may need less than what seemed the
    lowest; where so many turn out to need more than the next one seems to, the lowest of these."""
    plain = list(always)
    for _ in range(LOWEST_SETTLED):
        best = _plainest(judge, _lowest(judge, plain))
        if judge.is_settled(best.plan):
            return best
        judge.settle(best.plan)
    settled_ = [made for made in judge.settled if judge.allows(made)]
    return judge.score(min(settled_, key=lambda made: needed_bytes(judge, made)))


def _lowest(judge: Judge, always: Iterable[Plan]) -> Scored:
    """What needs least with fragments, of what is within the host's budget if anything is. Placing takes longest, so
    of all that was evaluated only the plans that need least without fragments are placed, and ``always``."""
    allowed = [made for made in judge.seen if judge.allows(made) and not judge.evaluation(made).crashes]
    used = {made: judge.limits.needed_bytes(judge.used_bytes(made)) for made in allowed}
    over = {made: judge.host_over_bytes(judge.evaluation(made)) for made in allowed}
    placed = sorted(used, key=lambda made: (over[made], used[made]))[:LOWEST_PLACED]
    placed += [made for made in always if made in used]
    best = min((over[made], needed_bytes(judge, made), place) for place, made in enumerate(placed))
    return judge.score(placed[best[-1]])


def _plainest(judge: Judge, lowest: Scored) -> Scored:
    """Where nothing fits: what needs hardly more than the lowest and is said in no or one entry."""
    most = needed_bytes(judge, lowest.plan) * (1 + NOISE)
    plain = (uniform(KEEP, judge.network), uniform(RECOMPUTED, judge.network))
    return next((judge.score(made) for made in plain if needed_bytes(judge, made) <= most), lowest)


def _worth(judge: Judge, whole: Scored, atom: Atom) -> EntryWorth:
    less = tuple(mode - {atom} for mode in whole.plan)
    pools, without = (judge.pool_bytes(made, is_ordered=False) for made in (whole.plan, less))
    tight = max(range(len(pools)), key=lambda rank: pools[rank] - judge.limits.pool_bytes[rank])
    found = judge.evaluation(less)
    return EntryWorth(
        atom=atom,
        layers=tuple(index for index, mode in enumerate(whole.plan) if atom in mode),
        saved_bytes=without[tight] - pools[tight],
        cost_us=whole.found.step_us - found.step_us,
        moved_bytes=whole.found.moved_bytes - found.moved_bytes,
    )
