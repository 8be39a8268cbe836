"""One trace, asked many configs: what each would do to the memory of that rank, composed from the arrows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from swapconf.config.config import Config, DefaultSwap, ListedSwap
from swapconf.config.dialects import RECOMPUTES
from swapconf.decide.expand import expand
from swapconf.decide.strategy import Strategy
from swapconf.memory.allocators import place
from swapconf.memory.allocators.mindspore import TRAINER_GROWTH_BYTES, Pool
from swapconf.memory.memory_view import EntryTotal, MemoryView
from swapconf.memory.replay import Replay, replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.memory.view import of_trace, view
from swapconf.models.network import Network
from swapconf.study.own_model import as_run
from swapconf.study.study import Study
from swapconf.timing.cost import Machine, StepTime
from swapconf.trace import run_record, trace_folder
from swapconf.trace.lifetimes import TICKS, Placement, PoolRecord
from swapconf.whatif import step_time
from swapconf.whatif.baseline_step import added_operations
from swapconf.whatif.belongs import other_run, recomputes
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.inlined import inlined_otherwise
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import LaunchPlan, prediction, schedule
from swapconf.whatif.prediction import Moves, Prediction
from swapconf.whatif.prepare import prepare
from swapconf.whatif.step_time import Clock, TimedStep
from swapconf.whatif.stopped import stopped
from swapconf.whatif.sweep import Point, PointTime
from swapconf.whatif.unfused import unfused, worth
from swapconf.whatif.way import Source, Way
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import show_bytes

BASELINE_ORIGIN = phrase("dry run level 1 (operator workspace excluded)")
ORIGIN = phrase("what-if from a {run}", run=BASELINE_ORIGIN)
_COMMUNICATION = "select_comm_recompute"
_SWITCHES = ("swap_config.swap", "recompute_config.recompute", "recompute_config.select_recompute")


class Mismatch(ValueError):
    """The trace and the config do not belong together; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """``added_operations``: of the kernels that run again in a step. ``step``: on its streams, with the strategy."""

    machine: Machine
    step: TimedStep
    before: StepTime
    after: StepTime
    added_operations: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``placement``: where MindSpore's pool would put the predicted blocks. ``way``: how the prediction was made.
    ``times``: None where no machine is given."""

    prediction: Prediction
    placement: Placement
    baseline_peak_bytes: int
    safe_bytes: int
    entries: tuple[EntryTotal, ...]
    findings: tuple[Finding, ...]
    way: Way
    times: Times | None = None


class Question:
    """A trace that is read and prepared, for one config and its variants. ``policy``: the allocator of its
    predictions. ``machine``: what steps are timed on; without one there are no times. ``findings``: how well it is
    known that both belong together. ``grown``: from what the trace was made, "" where a run left it. Raises
    SwapconfError for files that cannot be read, Mismatch where the trace is no baseline for the config."""

    def __init__(self, folder: Path, study: Study, policy: str = "mindspore", machine: Machine | None = None) -> None:
        study = as_run(study, folder)
        network = network_asked(study)
        trace = trace_folder.read(folder, run_record.report(folder).get("rank", 0))
        trace = replace(trace, blocks=trace.blocks.beside(run_record.of_other_micro_batches(folder)))
        settings = run_record.read(folder).get("settings")
        recorded = settings if isinstance(settings, dict) else {}
        if reason := other_run(study, trace, recorded):
            raise Mismatch(
                phrase("{reason}; make a trace of this config: {command}", reason=reason, command=making(study))
            )
        if not network.is_known:
            raise Mismatch(_not_read(study))
        try:
            baseline = prepare(unfused(trace), recomputes(study, recorded))
        except ValueError as error:
            raise Mismatch(
                phrase(
                    "{reason}; make a trace without swap and recompute: {command}", reason=error, command=making(study)
                )
            ) from None
        self.trace, self._policy = trace, policy
        self.grown = run_record.grown(run_record.report(folder))
        self._config, self.network, self._versions = study.config, network, study.versions
        self.prepared = placed(baseline, network)
        self._machine = machine
        self.clock = None if machine is None else step_time.clock(trace, baseline, machine)
        self._recorded_pool = run_record.pool(folder)
        replayed = replay(trace, lifetimes(trace) if baseline.joined else baseline.blocks, self._recorded_pool)
        self.pool = _pool_with_unit_of(
            replayed.pool, self._recorded_pool, run_record.pool_of(study.document.root.plain(), {})
        )
        inlined = inlined_otherwise(trace.folder, recorded, study, making(study))
        self.source = Source.of(trace, study, making(study))
        self.findings = (
            *[_unrecorded(trace.folder)] * (not recorded),
            *([inlined] if inlined is not None else []),
            *worth(trace),
            *_unexplained(trace.folder, replayed),
        )
        _check(self.prepared, network, study)

    @cached_property
    def graphed(self) -> GraphedBaseline:
        """Made where it is asked for first: a plan makes those of its own networks."""
        return GraphedBaseline.of(self.prepared, self.trace.opened.launch_graph)

    @property
    def baseline_peak_bytes(self) -> int:
        return self.prepared.baseline.blocks.used_peak_bytes

    @property
    def origin(self) -> str:
        """How its figures are known."""
        return joined(", ", [ORIGIN, self.grown]) if self.grown else ORIGIN

    def views(self, answer: Answer) -> tuple[MemoryView, MemoryView]:
        """Pictures of the baseline and of the prediction."""
        predicted, placed_at = answer.prediction, answer.placement
        return of_trace(
            self.trace,
            title=phrase("without swap and recompute"),
            reported=self._recorded_pool,
            policy=self._policy,
            origin=joined(", ", [BASELINE_ORIGIN, *[self.grown] * bool(self.grown)]),
        ), view(
            predicted.device,
            placed_at,
            title=self._config.file,
            rank=self.trace.rank,
            origin=self.origin,
            ticks=TICKS,
            with_fragments_peak_bytes=placed_at.mapped_bytes,
            reserved_bytes=placed_at.reserved_bytes,
            entries=answer.entries,
        )

    def predict(self, config: Config) -> Prediction:
        return self.graphed.predict(self._strategy(config))

    def answer(self) -> Answer:
        strategy = self._strategy(self._config)
        launched = schedule(self.prepared, strategy)
        whole = self.graphed.prediction(strategy, launched)
        entries = tuple(self._entry(whole, origin, text, without) for origin, text, without in _entries(self._config))
        return Answer(
            prediction=whole,
            way=Way(whole.order, self.source),
            baseline_peak_bytes=self.baseline_peak_bytes,
            entries=entries,
            times=self._times(launched),
            placement=place(self._policy, whole.device, self.pool),
            safe_bytes=self.graphed.safe_peak_bytes(strategy, whole),
            findings=(
                *stopped(whole, self._config),
                *_unread(whole, self._config),
                *(finding for entry in entries for finding in _findings(entry)),
            ),
        )

    def sweep(self, prefetches: Iterable[int]) -> tuple[Point, ...]:
        return tuple(self._point(prefetch) for prefetch in prefetches)

    def _point(self, prefetch: int) -> Point:
        strategy = self._strategy(with_prefetch(self._config, prefetch))
        launched = schedule(self.prepared, strategy)
        predicted = self.graphed.prediction(strategy, launched)
        return Point(
            prefetch=prefetch,
            peak_bytes=predicted.used_peak_bytes,
            twice_bytes=int(predicted.moves.size_bytes[predicted.moves.twice].sum()) // predicted.steps,
            crashes=predicted.crashes,
            time=self._point_time(launched),
        )

    def _point_time(self, launched: LaunchPlan) -> PointTime | None:
        return None if self.clock is None else step_time.point_time(*self._timed(self.clock, launched))

    def timed(self, machine: Machine) -> TimedStep:
        """The step of the config on another machine."""
        clock = step_time.clock(self.trace, self.prepared.baseline, machine)
        return self._timed(clock, schedule(self.prepared, self._strategy(self._config)))[0]

    def _timed(self, clock: Clock, launched: LaunchPlan) -> tuple[TimedStep, Moves]:
        """In the order of the run, in which a plan has its positions; with the moves that the step tells of."""
        moves = prediction(self.prepared, launched).moves
        return step_time.time(clock, launched, moves), moves

    def _times(self, launched: LaunchPlan) -> Times | None:
        if self.clock is None or self._machine is None:
            return None
        step, _ = self._timed(self.clock, launched)
        return Times(
            machine=self._machine,
            step=step,
            before=step_time.step_time(step_time.baseline_time(self.clock)),
            after=step_time.step_time(step),
            added_operations=added_operations(self.clock.step, launched.program.copies),
        )

    def _strategy(self, config: Config) -> Strategy:
        return expand(config, self.network, self._versions)

    def _entry(self, whole: Prediction, origin: Origin, text: str, without: Config) -> EntryTotal:
        rest = self.predict(without)
        return EntryTotal(
            origin=origin,
            text=text,
            saved_bytes=rest.used_peak_bytes - whole.used_peak_bytes,
            moved_bytes=whole.moved_bytes - rest.moved_bytes,
            recomputed=whole.recomputed - rest.recomputed,
        )


_PLANNED_AHEAD = "O1"
_RING = "model.model_config.use_ring_attention"


def network_asked(study: Study) -> Network:
    """Raises Mismatch where nothing is predicted for a config, whatever the trace."""
    if study.network is None:
        raise Mismatch(study.why_no_strategy)
    if study.config.runtime.memory_optimize_level == _PLANNED_AHEAD:
        raise Mismatch(
            phrase(
                "with memory_optimize_level O1 MindSpore plans the memory ahead and writes no graph, without which "
                "nothing is predicted; ask with --set context.memory_optimize_level=O0, of traces that were made with "
                "that, too"
            )
        )
    ring = study.document.entry_at(_RING)
    if study.config.pipeline.context_parallel > 1 and ring is not None and ring.value.plain() is True:
        raise Mismatch(
            phrase(
                "with use_ring_attention layers send to other ranks themselves; what then runs again is not known, and "
                "nothing is predicted; `swapconf dryrun` runs any"
            )
        )
    return study.network


def _not_read(study: Study) -> str:
    """Of a model that neither the catalog knows nor the run that left the trace has read."""
    return phrase(
        "the catalog does not know the model of {file}, and the trace does not tell of which operators its layers are, "
        "as it does where the model hands each of them to mindformers' LayerSetting; make a trace of this config: "
        "{command}",
        file=study.config.file,
        command=making(study),
    )


def with_prefetch(config: Config, prefetch: int) -> Config:
    """The same config with this ``backward_prefetch`` everywhere."""
    swap = config.swap
    if isinstance(swap, DefaultSwap):
        return replace(config, swap=replace(swap, prefetch=prefetch))
    if isinstance(swap, ListedSwap):
        return replace(
            config,
            swap=replace(
                swap,
                layer_swap=tuple(replace(entry, prefetch=prefetch) for entry in swap.layer_swap),
                op_swap=tuple(replace(entry, prefetch=prefetch) for entry in swap.op_swap),
            ),
        )
    return config


def _check(prepared: PlacedBaseline, network: Network, study: Study) -> None:
    rows, is_extra = prepared.baseline.kernels.layer, prepared.baseline.layers.is_extra
    indices = {layer.index for layer in network.layers}
    seen = {row for row in np.unique(rows[rows >= 0]).tolist() if not is_extra[row]}
    if not seen:
        raise Mismatch(
            phrase("the trace has no decoder layers")
            if network.family is not None
            else phrase("the trace has no decoder layers: their list in the model has to be called `layers`")
        )
    if not seen <= indices or (len({layer.stage for layer in network.layers}) == 1 and seen != indices):
        raise Mismatch(
            phrase(
                "the trace has the layers {first} to {last}, the model of {file} has {layers}; make a "
                "trace of this config: {command}",
                first=min(seen),
                last=max(seen),
                file=study.config.file,
                layers=network.num_layers,
                command=making(study),
            )
        )
    if not prepared.sites.names:
        raise Mismatch(phrase("the operators of the trace are not those of a {family} model", family=network.label))


def _entries(config: Config) -> Iterator[tuple[Origin, str, Config]]:
    """Every entry with the config that lacks it."""
    swap, again = config.swap, config.recompute
    if isinstance(swap, DefaultSwap):
        yield swap.origin, phrase("default swap"), replace(config, swap=ListedSwap())
    elif isinstance(swap, ListedSwap):
        for index, layer in enumerate(swap.layer_swap):
            rest = replace(swap, layer_swap=swap.layer_swap[:index] + swap.layer_swap[index + 1 :])
            yield layer.origin, "layer_swap", replace(config, swap=rest)
        for index, op in enumerate(swap.op_swap):
            rest = replace(swap, op_swap=swap.op_swap[:index] + swap.op_swap[index + 1 :])
            yield op.origin, f"op_swap {op.pattern}", replace(config, swap=rest)
    if again.full is not None:
        yield again.full.origin, "recompute", replace(config, recompute=replace(again, full=None))
    for index, chosen in enumerate(again.select):
        less = replace(again, select=again.select[:index] + again.select[index + 1 :])
        yield chosen.origin, f"select_recompute {chosen.pattern}", replace(config, recompute=less)
    for index, chosen in enumerate(again.select_comm):
        less = replace(again, select_comm=again.select_comm[:index] + again.select_comm[index + 1 :])
        yield chosen.origin, f"{_COMMUNICATION} {chosen.pattern}", replace(config, recompute=less)


def _unrecorded(folder: str) -> Finding:
    return Finding(
        origin=Origin(file=folder),
        rule="trace-unrecorded",
        severity=Severity.NOTE,
        message=phrase(
            "there is no {file} with this trace, so only its layers, cells, hidden size and "
            "attention were compared with the YAML",
            file=run_record.FILE,
        ),
        hint=phrase("`swapconf dryrun --keep` writes one"),
    )


def _pool_with_unit_of(pool: Pool, recorded: PoolRecord, written: PoolRecord) -> Pool:
    """The pool of the question: that of the trace, with the unit that the YAML sets, if either of them sets one."""
    if written.growth_bytes == recorded.growth_bytes:
        return pool
    return Pool(growth_bytes=written.growth_bytes or TRAINER_GROWTH_BYTES, limit_bytes=pool.limit_bytes)


def _unexplained(folder: str, replayed: Replay) -> Iterator[Finding]:
    if not replayed.is_exact:
        yield Finding(
            origin=Origin(file=folder),
            rule="pool-unexplained",
            severity=Severity.NOTE,
            message=phrase(
                "only {same} of {blocks} addresses follow the known rules of MindSpore's pool, so "
                "peaks with fragments are approximate",
                same=replayed.num_same,
                blocks=replayed.num_blocks,
            ),
            hint=phrase("the used peak does not depend on them"),
        )


def _unread(predicted: Prediction, config: Config) -> Iterator[Finding]:
    moves = predicted.moves
    if moves.unread.any():
        wasted = int(moves.size_bytes[moves.unread].sum()) // max(predicted.steps, 1)
        operators = sorted({moves.sites[site][1] for site in moves.site[moves.unread].tolist()})
        yield Finding(
            origin=config.origin("swap_config.layer_swap", "swap_config"),
            rule="copies-never-read",
            severity=Severity.WARNING,
            message=phrase(
                "of {moved} that each step copies to the host, {wasted} are never copied back: {operators}",
                moved=show_bytes(predicted.moved_bytes),
                wasted=show_bytes(wasted),
                operators=", ".join(operators),
            ),
            hint=phrase("name the operators that are worth it in op_swap, instead of the whole layer"),
        )


def _findings(entry: EntryTotal) -> Iterator[Finding]:
    if entry.saved_bytes == 0:
        yield Finding(
            origin=entry.origin,
            rule="entry-saves-nothing",
            severity=Severity.WARNING,
            message=phrase(
                "without {entry} alone the peak is the same; it moves {moved} and runs {kernels} "
                "kernels again in each step",
                entry=entry.text,
                moved=show_bytes(entry.moved_bytes),
                kernels=entry.recomputed,
            ),
            hint=phrase("leave it out, or look at what holds the memory at the peak"),
        )
    elif entry.saved_bytes < 0:
        copies = phrase("lower its backward_prefetch; --sweep backward_prefetch=1..400 shows where two copies live")
        again = phrase(
            "leave it out, or recompute other operators: at the new peak, what runs again needs more than "
            "was dropped before"
        )
        yield Finding(
            origin=entry.origin,
            rule="entry-costs-memory",
            severity=Severity.WARNING,
            message=phrase("{entry} raises the peak by {size}", entry=entry.text, size=show_bytes(-entry.saved_bytes)),
            hint=again if entry.text.partition(" ")[0] in RECOMPUTES else copies,
        )


def making(study: Study) -> str:
    """The command that makes the trace which a what-if needs. What the YAML has no section for is not switched off."""
    sections = study.document.root.entries
    switches = [*_SWITCHES, *[f"recompute_config.{_COMMUNICATION}"] * bool(study.config.recompute.select_comm)]
    off = [f"--set {switch}=False" for switch in switches if switch.partition(".")[0] in sections]
    code = ["--register-path CODE"] * bool(study.own_code)
    return " ".join(["swapconf dryrun", study.config.file, *code, *off, "--keep DIR"])
