#!/usr/bin/env python3
"""The search of `swapconf plan` against all plans of a small model, each asked for: how often it finds the best one.

    python scripts/evidence/plan_exhaustive.py TRACES CONFIG [--set PATH=VALUE ...] [--modes 8] [--known FILE]
    python scripts/evidence/plan_exhaustive.py --seed 1 --keep DIR [--only FAMILY] [--modes 8]

TRACES is the folder of a dry run without swap and recompute (`dryrun --keep`), with `rank_N` below. With --seed the
models are the random ones of plans.py, whose baselines are made in DIR where they are not there. Every plan that
gives each layer one of the modes is evaluated with the link as told and a slower one; then, for budgets at even
distances from the lowest that any plan fits in, the fastest that fits is compared with what the search finds. A
difference of less than 0.05 % of the step is none. The search may also change prefetches, so it can find a faster plan;
where --most is more than there are plans, being equal says little. What was evaluated is kept in FILE, as it takes
minutes.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plans
from agreement_cases import document
from agreement_cases import study as study_of

from swapconf.config import overrides
from swapconf.config.config import Config
from swapconf.plan.every import every_plan
from swapconf.plan.judge import Judge
from swapconf.plan.limits import Cards, Limits
from swapconf.plan.modes import Atom, Mode, Plan, uniform
from swapconf.plan.planned import needed_bytes
from swapconf.plan.runs import trace_folders
from swapconf.plan.search import Search
from swapconf.study.study import Study, study_for_check
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.upstream.facts import Versions
from swapconf.whatif.evaluate import Evaluator
from swapconf.whatif.evaluation import Evaluation

SAME = 0.0005  # of a step
_ANY_NUMBER = 1 << 48  # of plans
MODES = {
    8: (
        "",
        "recompute layer",
        "swap layer (20)",
        "recompute attention + recompute feed_forward",
        "recompute feed_forward + swap attention (50)",
        "recompute attention + recompute feed_forward + swap add (20)",
        "swap attention (50) + swap attention_norm (20)",
        "recompute feed_forward",
    ),
    3: ("", "recompute attention + recompute feed_forward", "swap layer (20)"),
}
_MCORE = {"attention": "self_attention", "feed_forward": "mlp", "attention_norm": "input_layernorm"}  # of the same cell
_ATOM = re.compile(r"(recompute|swap) (\S+)(?: \((\d+)\))?")


@dataclass(kw_only=True)
class Known:
    """An evaluator that remembers what it was asked; answers are the same whoever asks first."""

    evaluator: Evaluator
    found: dict[Any, tuple[Evaluation, ...]] = field(default_factory=dict)
    pools: dict[Any, tuple[int, ...]] = field(default_factory=dict)

    def evaluations(self, config: Config, keys: Sequence[Hashable]) -> tuple[Evaluation, ...]:
        key = tuple(keys)
        if key not in self.found:
            self.found[key] = tuple(self.evaluator.evaluate(config, keys, machine) for machine in range(2))
        return self.found[key]

    def with_fragments_bytes(self, config: Config, keys: Sequence[Hashable]) -> tuple[int, ...]:
        key = tuple(keys)
        if key not in self.pools:
            self.pools[key] = self.evaluator.with_fragments_bytes(config, keys)
        return self.pools[key]


@dataclass(frozen=True, kw_only=True)
class OnMachine:
    """As an evaluator, for a judge. ``machine``: 0 the link as told, 1 the slower one."""

    known: Known
    machine: int

    @property
    def ranks(self) -> tuple[tuple[int, int], ...]:
        return self.known.evaluator.ranks

    @property
    def versions(self) -> Versions:
        return self.known.evaluator.versions

    def evaluate(self, config: Config, keys: Sequence[Hashable], machine: int) -> Evaluation:
        return self.known.evaluations(config, keys)[self.machine]

    def order(self, config: Config, keys: Sequence[Hashable]) -> None:
        """Both searches are held against each other in the same order of launches."""

    def with_fragments_bytes(
        self, config: Config, keys: Sequence[Hashable], *, is_ordered: bool = True
    ) -> tuple[int, ...]:
        return self.known.with_fragments_bytes(config, keys)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("traces", type=Path, nargs="?")
    options.add_argument("config", type=Path, nargs="?")
    options.add_argument("--set", action="append", default=[], dest="changes", metavar="PATH=VALUE")
    options.add_argument("--seed", type=int, help="random models, instead of TRACES and CONFIG")
    options.add_argument("--keep", type=Path, help="with --seed: folder for traces")
    options.add_argument("--only", action="append", default=[], metavar="FAMILY", help="with --seed: families")
    options.add_argument("--modes", type=int, choices=sorted(MODES), default=8)
    options.add_argument("--known", type=Path)
    options.add_argument("--most", type=int, default=800, help="plans that the search may ask for")
    options.add_argument("--budgets", type=int, default=20)
    options.add_argument("--hardware", default=plans.HARDWARE)
    options.add_argument("--slower-link", type=float, default=0.3)
    options.set_defaults(jobs=1)
    given = options.parse_args()
    if given.seed is not None and given.keep is not None:
        for traces, judged in _drawn(given):
            _with_both_links(given, traces, judged)
    elif given.traces and given.config:
        _with_both_links(
            given, given.traces, study_for_check(overrides.of_file(str(given.config), given.changes), os.environ)
        )
    else:
        options.error("TRACES and CONFIG, or --seed and --keep")


def _drawn(given: argparse.Namespace) -> Iterator[tuple[Path, Study]]:
    """Traces and studies of the random models."""
    given.keep.mkdir(parents=True, exist_ok=True)
    for family, stages in plans.SHAPES:
        if not given.only or family in given.only:
            shape = plans.drawn(given.seed, family, stages)
            traces = plans.place(given, family, stages)
            plans.baselines(given, shape, traces)
            print(shape.layout)
            yield traces, study_of(document(shape))


def _with_both_links(given: argparse.Namespace, traces: Path, study: Study) -> None:
    assert study.network is not None
    card = hardware.load(given.hardware)
    slower = card.having("host_link_gbps", card.value("host_link_gbps") * (1 - given.slower_link), "slower")
    known = Known(evaluator=Evaluator(trace_folders(traces), study, [Machine(hardware=card), Machine(hardware=slower)]))
    if given.known and given.known.exists():
        known.found, known.pools = pickle.loads(given.known.read_bytes())
    names = {} if "attention" in study.network.layers[0].template.by_path else _MCORE
    modes = [mode_of(text, names) for text in MODES[given.modes]]
    for machine, link in enumerate(("the link as told", f"the link {given.slower_link:.0%} slower")):
        print(f"{traces.name}, {given.modes} modes, {link}", flush=True)
        judge = judge_of(known, study, machine, 1 << 62)
        start = time.process_time()
        everything = list(_every(judge, modes))
        print(f"{len(everything)} plans ({time.process_time() - start:.0f} s)", flush=True)
        if given.known:
            given.known.write_bytes(pickle.dumps((known.found, known.pools)))
        _compared(judge, study, everything, modes, given.budgets, given.most, machine)
        if given.known:
            given.known.write_bytes(pickle.dumps((known.found, known.pools)))


def mode_of(text: str, names: Mapping[str, str]) -> Mode:
    """The mode that `modes.told` tells so. ``names``: of the operators, where they have others."""
    return frozenset(
        Atom("swap" if kind == "swap" else "recompute", _path(path, names), int(prefetch or 0))
        for kind, path, prefetch in _ATOM.findall(text)
    )


def _path(told: str, names: Mapping[str, str]) -> str:
    return "" if told == "layer" else names.get(told, told)


def judge_of(known: Known, study: Study, machine: int, budget_bytes: int) -> Judge:
    """One that has been asked nothing."""
    assert study.network is not None
    stages = len(known.evaluator.ranks)
    evaluator: Any = OnMachine(known=known, machine=machine)
    limits = Limits(budget_bytes=budget_bytes, workspace_bytes=known.evaluator.workspace_bytes)
    cards = Cards(num_devices=stages, num_stages=stages, per_host=8)
    return Judge(evaluator, study.config, study.network, limits, cards, max_entries=99)


def _every(judge: Judge, modes: Sequence[Mode]) -> Iterator[tuple[Plan, Evaluation]]:
    """All plans, the fastest first."""
    found = [(plan, judge.evaluation(plan)) for plan in every_plan(judge, modes, _ANY_NUMBER)]
    yield from sorted(
        ((plan, evaluation) for plan, evaluation in found if not evaluation.crashes), key=lambda item: item[1].step_us
    )


def _floor(judge: Judge, everything: Sequence[tuple[Plan, Evaluation]]) -> int:
    """The lowest budget that any plan fits in, with fragments."""
    least = 1 << 62
    by_used = [(judge.limits.needed_bytes(judge.used_bytes(plan)), plan) for plan, found in everything]
    for used, plan in sorted(by_used, key=lambda item: item[0]):
        if used >= least:
            break
        least = min(least, needed_bytes(judge, plan))
    return least


def _compared(
    judge: Judge,
    study: Study,
    everything: Sequence[tuple[Plan, Evaluation]],
    modes: Sequence[Mode],
    budgets: int,
    most: int,
    machine: int,
) -> None:
    keep = uniform(frozenset(), judge.network)
    whole = judge.evaluation(keep).step_us
    low, high = _floor(judge, everything), needed_bytes(judge, keep)
    gaps: list[float] = []
    for place in range(budgets):
        budget = low + (high - low) * place // budgets
        best = next(
            found.step_us
            for plan, found in everything
            if judge.limits.needed_bytes(judge.used_bytes(plan)) <= budget and needed_bytes(judge, plan) <= budget
        )
        fresh = judge_of(judge.evaluator.known, study, machine, budget)  # type: ignore[attr-defined]
        start, before = time.process_time(), fresh.asked
        found = Search(fresh, modes).run(most)
        gap = 100 * (found.found.step_us - best) / whole if found.fits else float("inf")
        gaps.append(0.0 if found.fits and found.found.step_us <= best * (1 + SAME) else gap)
        print(
            f"  {budget / high:.4f} of no strategy: best {100 * (best / whole - 1):+.2f} %, found "
            f"{100 * (found.found.step_us / whole - 1):+.2f} %, {fresh.asked - before} asked, "
            f"{time.process_time() - start:.1f} s" + (f"  GAP {gap:.2f}" if gaps[-1] else ""),
            flush=True,
        )
    print(f"equal on {sum(not gap for gap in gaps)} of {budgets} budgets, worst gap {max(gaps):.2f} points", flush=True)


if __name__ == "__main__":
    main()
