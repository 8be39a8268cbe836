"""CASE + TRACES -> VERDICT: where explain, cells, graph and log disagree, and how far what-if is off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from agreement_cases import PER_SHAPE, Case, document, study
from agreement_cases import case as case_of
from whatif_table import graphed, predicted_inside, true_inside

from swapconf.decide import log_lines
from swapconf.decide.strategy import Recompute, Strategy, Swap
from swapconf.dryrun import flags
from swapconf.dryrun.effect import compare_copies, compare_recompute
from swapconf.dryrun.effect.effect import observed
from swapconf.models.network import COMMUNICATION
from swapconf.trace import trace_folder
from swapconf.trace.trace import Trace
from swapconf.upstream.launch_orders import Order
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.prediction import Prediction

COMPLETED = ("completed", "does not fit")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of the true run and of the prediction; bytes, and copies to the host in one step. ``order``: of the launches, in
    which it was predicted."""

    baseline: int
    peak: int
    predicted_peak: int
    inside: int
    predicted_inside: int
    host: int
    predicted_host: int
    moves: int
    predicted_moves: int
    safe: int
    order: Order

    @property
    def error(self) -> float:
        return 100 * (self.predicted_peak / self.peak - 1)

    @property
    def inside_error(self) -> float:
        return 100 * (self.predicted_inside / self.inside - 1)

    @property
    def away(self) -> float:
        """How far the strategy takes the peak from the baseline's, in percent."""
        return 100 * (self.peak / self.baseline - 1)

    @property
    def over(self) -> float:
        return 100 * (self.safe / self.peak - 1)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``disagreements``: between explain, cells, graph and log. ``misses``: a crash of MindSpore that what-if did not
    foresee. ``spared``: one that it says may come, as it mostly does, and that did not, and what its graph then did
    otherwise. ``figures``: None where
    MindSpore died of the strategy while it compiled."""

    case: Case
    disagreements: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    figures: Figures | None = None
    crash: str = ""
    details: tuple[str, ...] = field(default=(), repr=False)


def judge(case: Case, folder: Path) -> Verdict:
    asked = case.study
    strategy = asked.strategy
    assert strategy is not None
    record = json.loads((folder / case.name / "run.json").read_text(encoding="utf-8"))["report"]
    baseline = _baseline(folder / case.baseline, case.seed, case.number // PER_SHAPE)
    if isinstance(baseline, str):
        return Verdict(case=case, misses=(baseline,))
    found = baseline.predict(strategy)
    if record["outcome"] not in COMPLETED:
        told = f"the run: {record['outcome']}: {record['detail'][:200]}"
        expected = found.crashes
        return Verdict(case=case, crash=told, misses=() if expected else (told,))
    unseen: tuple[str, ...] = ()
    if found.crashes:
        unseen = ("MindSpore may die of this strategy, was predicted; it did not",)
    truth = trace_folder.read(folder / case.name, rank=0)
    effect = observed(truth, strategy.network.num_layers)
    origin = asked.config.origin("swap_config.swap", "swap_config")
    findings = [*compare_copies.compare(strategy, effect, origin), *compare_recompute.compare(strategy, effect, origin)]
    hints = (*compare_copies.LEFT_OPEN, compare_recompute._NOT_BEHIND)
    graph = [f"graph: {finding.message}" for finding in findings if finding.hint not in hints]
    if unseen:  # of what such a run does, MindSpore's own fault may be a part: a copy that is left out, say
        unseen, graph = (*unseen, *graph), []
    disagreements = (*_cells(strategy, folder / case.name), *_log(strategy, record), *graph)
    details = (case.shape.family, case.shape.layout, case.words, *disagreements, *unseen, *worker_lines(strategy))
    return Verdict(
        case=case,
        disagreements=disagreements,
        spared=unseen,
        details=details,
        figures=_figures(baseline, strategy, found, truth),
    )


@lru_cache(maxsize=2)
def _baseline(folder: Path, seed: int, group: int) -> GraphedBaseline | str:
    """A baseline, or what is wrong with it."""
    network = study(document(case_of(seed, group * PER_SHAPE).shape)).network
    assert network is not None
    try:
        return graphed(trace_folder.read(folder, rank=0), network)
    except Exception as error:  # the fault of a baseline is told with its cases
        return f"the run without a strategy: {error}"


def worker_lines(strategy: Strategy) -> Iterator[str]:
    for entry in strategy.layers:
        yield from log_lines.lines(entry, strategy.swap_on)


def _log(strategy: Strategy, record: dict[str, Any]) -> Iterator[str]:
    """Both ways, as sets: a layer of multi-token prediction logs under the number of the last layer."""
    expected, logged = set(worker_lines(strategy)), set(record["strategy_lines"])
    yield from (f"log: not there: {text}" for text in sorted(expected - logged))
    yield from (f"log: not explained: {text}" for text in sorted(logged - expected))


def _cells(strategy: Strategy, folder: Path) -> Iterator[str]:
    """Decisions against the flags on the cells that the run built."""
    real = flags.read(folder / "flags.json")
    # whether a layer has its communication as primitives depends on the tensor parallelism, not on the model
    talking = {
        (entry.layer.name, operator.path)
        for entry in strategy.layers
        for operator in entry.layer.template.primitives
        if operator.type in COMMUNICATION
    }
    actions = {site: action for site, action in strategy.actions().items() if site not in talking}
    swapped = {site: action.prefetch for site, action in actions.items() if isinstance(action, Swap)}
    again = {site for site, action in actions.items() if isinstance(action, Recompute)}
    carried = {site: prefetch for site, prefetch in real.swapped.items() if site not in talking}
    yield from _differences("swap", swapped.items(), carried.items())
    yield from _differences("recompute", again, real.recomputed - talking)


def _differences(kind: str, decided: Any, carried: Any) -> Iterator[str]:
    for what, sites in (
        ("decided, not on the cells", set(decided) - set(carried)),
        ("on the cells, not decided", set(carried) - set(decided)),
    ):
        if sites:
            shown = sorted(map(str, sites))
            yield f"cells: {kind} {what}: {len(sites)} sites, as {', '.join(shown[:3])}"


def _figures(baseline: GraphedBaseline, strategy: Strategy, found: Prediction, truth: Trace) -> Figures:
    return Figures(
        baseline=baseline.prepared.baseline.blocks.used_peak_bytes,
        peak=truth.used_peak_bytes,
        predicted_peak=found.used_peak_bytes,
        inside=true_inside(truth),
        predicted_inside=predicted_inside(found),
        host=truth.host_peak_bytes,
        predicted_host=found.host_peak_bytes,
        moves=sum(kernel.copies_to_host for kernel in truth.step),
        predicted_moves=len(found.moves) // max(found.steps, 1),
        safe=baseline.safe_peak_bytes(strategy, found),
        order=found.order,
    )
