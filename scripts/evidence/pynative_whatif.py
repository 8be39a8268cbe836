"""docs/evidence/pynative-whatif.md: what-if of PyNative traces against true dry runs of the same strategies.

    scripts/generations.sh --install pynative
    python scripts/evidence/pynative_whatif.py --seed S --cases N [--compressed | --parallel] [--table] [--keep FOLDER]

Each shape is dry-run once without swap and recompute; several strategies are asked of this trace, and each is dry-run
itself with ``--as-parallel``. ``--compressed``: DeepSeek-V4; ``--parallel``: layouts of several ranks, with mindformers
2.1.0; each is a section of the page. ``--keep``: traces and results stay in a folder, and what is there is not run
again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from evidence_page import kept, opening, paragraph, section
from pynative_layouts import Shared, shared
from pynative_runs import ROOT, config_of, dryrun
from pynative_strategies import COMPRESSED, KINDS, MODELS, Shape, Strategy, shape, strategy

from swapconf.config import overrides
from swapconf.study.study import study_for_check
from swapconf.trace import trace_folder
from swapconf.trace.marks import FILE, moved_by
from swapconf.whatif.pynative.question import NativeQuestion

PAGE = ROOT / "docs/evidence/pynative-whatif.md"
EACH = 6  # strategies of a shape
EACH_SHARED = 3  # of a layout
FAR = 0.1


FIRST, COMPRESSED_ONES, SHARED_ONES = "Qwen3, DeepSeek-V3", "DeepSeek-V4", "Parallel layouts"
SECTIONS = (FIRST, COMPRESSED_ONES, SHARED_ONES)
SHORT = (
    "models",
    "strategies",
    "peak moved by more than 10%",
    "median error",
    "worst",
    "below the safe bound",
    "bound over",
)
HOW = """\
Shapes and strategies are drawn from seeds: random models with long sequences and few weights, so that activations set
the peak, and for each of them 6 strategies, with paths of modules that the shape has. Each is predicted from the one
trace of its shape without swap and recompute, and dry-run itself with `--as-parallel`. hyper_parallel is swapconf's
stand-in; DeepSeek-V4 is without its fused kernels, and layers compress in random ways. *Below the safe bound*: the true
peak of how many strategies; *bound over*: how far it lies over that in the median and at most.

- *changed*: how far the true peak is from that of the trace.
- *error*: of the predicted peak (`swapconf whatif`). *safe*: how far the bound of `--safe` lies over the true peak.
- *host*: the most on the host at once, true and, where it differs, predicted.

*Parallel layouts*: one rank of random layouts of mindformers 2.1.0: `tp` with its sequences shared out, `cp`, `ep`,
`pp`, and parameters in shards (`dp`), with 1 to 4 micro-batches. All runs are with `--launch-blocking`, as threads race
on several ranks; experts get even shares of the tokens.

Not in it: layers that are both swapped and recomputed, `exclude_op`, `recompute_comm`, asynchronous exchanges. The true
runs are dry runs; none was compared with a card.
"""
MADE = "Made by `scripts/evidence/pynative_whatif.py {asked} --table` with {versions}."
HEAD = (
    "| shape | strategy | changed | true peak, B | predicted, B | error | safe | host, B |",
    "|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Bytes. ``before``: the peak of the trace without."""

    shape: str
    strategy: Strategy
    before: int
    true: int
    predicted: int
    safe: int
    host_true: int
    host_predicted: int

    @property
    def error(self) -> float:
        return self.predicted / self.true - 1

    @property
    def is_far(self) -> bool:
        return abs(self.true / self.before - 1) > FAR

    def cells(self) -> str:
        host = "-" if not self.host_true and not self.host_predicted else f"{self.host_true:,}"
        if self.host_true != self.host_predicted:
            host += f" / {self.host_predicted:,}"
        cells = (
            self.shape,
            "<br>".join(f"`{word}`" for word in self.strategy.words),
            f"{self.true / self.before - 1:+.1%}",
            f"{self.true:,}",
            f"{self.predicted:,}",
            f"{self.error:+.4%}",
            f"{self.safe / self.true - 1:+.1%}",
            host,
        )
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Runs:
    """``python``: an interpreter of the environment. ``mindformers``, ``mindspore``: versions there."""

    python: str
    variables: Mapping[str, str]
    mindformers: str
    mindspore: str

    def dry_run(self, model: str, words: Sequence[str], folder: Path, rank: int | None = None) -> Path:
        """The folder of the trace; what is there is not run again. ``rank``: None of one card; where there are several,
        launches block, as threads race. Raises RuntimeError where it does not end well."""
        place = folder / f"rank_{rank or 0}"
        if not (place / "result.json").exists():
            more = () if rank is None else ("--ranks", str(rank), "--launch-blocking")
            dryrun(self.python, self.variables, config_of(model), words, "--keep", str(folder), *more)
        return place


def rows(runs: Runs, models: Sequence[str], seed: int, cases: int, keep: Path) -> Iterator[Row]:
    for number in range(-(-cases // EACH)):
        rng = Random(f"{seed}:{number}")
        model = shape(rng, models[number % len(models)])
        base = runs.dry_run(model.model, model.words, keep / f"{seed}-{number}")
        paths = _paths(base)
        for place, kind in enumerate(KINDS[: cases - number * EACH]):
            asked = strategy(Random(f"{seed}:{number}:{place}"), model, kind, paths)
            yield _row(runs, model, asked, base, keep / f"{seed}-{number}-{place}")


def rows_shared(runs: Runs, models: Sequence[str], seed: int, cases: int, keep: Path) -> Iterator[Row]:
    for number in range(-(-cases // EACH_SHARED)):
        rng = Random(f"{seed}:{number}")
        made = shared(rng, shape(rng, models[number % len(models)]))
        base = runs.dry_run(made.shape.model, made.shape.words, keep / f"{seed}-{number}", made.rank)
        paths = _paths(base)
        kinds = [rng.choice(made.kinds) for _ in range(EACH_SHARED)]
        for place, kind in enumerate(kinds[: cases - number * EACH_SHARED]):
            asked = strategy(Random(f"{seed}:{number}:{place}"), made.shape, kind, paths)
            yield _row(runs, made.shape, asked, base, keep / f"{seed}-{number}-{place}", made)


def _row(runs: Runs, model: Shape, asked: Strategy, base: Path, folder: Path, on: Shared | None = None) -> Row:
    words = (*model.words, *asked.words)
    true = runs.dry_run(model.model, words, folder, None if on is None else on.rank)
    document = overrides.of_file(str(_config(model.model)), words)
    study = study_for_check(document, os.environ, runs.mindspore, runs.mindformers)
    question = NativeQuestion(base, study)
    found = question.predict(study.config)
    return Row(
        shape=model.text if on is None else f"{model.text}<br>{on.text}",
        strategy=asked,
        before=_peak(base),
        true=_peak(true),
        predicted=found.used_peak_bytes,
        safe=question.safe_peak_bytes(study.config),
        host_true=moved_by(true / FILE)[1],
        host_predicted=found.host_peak_bytes,
    )


def _config(model: str) -> Path:
    return ROOT / f"configs/pynative/{model}.yaml"


def _peak(folder: Path) -> int:
    told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return int(told["max_memory_allocated_bytes"])


def _paths(folder: Path) -> dict[int, list[str]]:
    found: dict[int, set[str]] = {}
    for mark in trace_folder.read(folder, 0).marks:
        if mark.module:
            found.setdefault(mark.layer, set()).add(mark.module)
    return {layer: sorted(modules) for layer, modules in found.items()}


def summary(name: str, made: Sequence[Row]) -> tuple[str, ...]:
    """As SHORT."""
    errors = [abs(row.error) for row in made]
    over = [row.safe / row.true - 1 for row in made]
    return (
        name,
        str(len(made)),
        str(sum(row.is_far for row in made)),
        f"{median(errors):.4%}",
        f"{max(errors):.4%}",
        f"{sum(share >= 0 for share in over)} of {len(over)}",
        f"{median(over):.1%}, {max(over):.1%}",
    )


def page(name: str, short: tuple[str, ...], section_of: Sequence[str]) -> str:
    """The page with one of its parts made anew."""
    sections = {part: section(PAGE, f"## {part}") for part in SECTIONS} | {name: list(section_of)}
    sections = {part: lines for part, lines in sections.items() if lines}
    told = [short if part == name else _short(part) for part in sections]
    worst = " and ".join(f"{row[4]} with {row[0]}" for row in told)
    below = sum(int(row[5].partition(" ")[0]) for row in told)
    count = sum(int(row[1]) for row in told)
    result = (
        f"The predicted peak of PyNative trainings with recompute or swap is off by at most {worst}. The true peak "
        f"lies below the bound of `--safe` in {below} of {count} dry runs."
    )
    lines = [*opening("What-if of PyNative trainings against true dry runs", result, SHORT, told), HOW]
    lines += ["\n".join(lines_of).rstrip() + "\n" for lines_of in sections.values()]
    return "\n".join([*lines, *kept(PAGE)[1:]]).rstrip() + "\n"


def _short(part: str) -> tuple[str, ...]:
    """What the page tells of the part that is not made."""
    rows = (line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {part} |"))
    return tuple(cell.strip() for cell in next(rows).strip("|").split("|"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, default=24)
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--compressed", action="store_true", help="DeepSeek-V4 instead of the others")
    other.add_argument("--parallel", action="store_true", help="layouts of several ranks, with mindformers 2.1.0")
    parser.add_argument("--table", action="store_true", help="write docs/evidence/pynative-whatif.md")
    parser.add_argument("--keep", type=Path, help="keep the traces, and take what is there")
    options = parser.parse_args()
    sys.path.append(str(ROOT / "scripts"))
    import generations

    pair = generations.NATIVE_PAIRS[1 if options.parallel else 0]
    place = generations.Place(pair, generations.kept_in())
    generations.make(place)
    runs = Runs(place.python, {**place.variables(), "PYTHONPATH": str(ROOT)}, pair.mindformers, pair.mindspore)
    with tempfile.TemporaryDirectory(prefix="swapconf-pynative-") as folder:
        made = []
        keep = (options.keep or Path(folder)).resolve()
        models = (COMPRESSED,) if options.compressed else MODELS
        drawn = rows_shared if options.parallel else rows
        for row in drawn(runs, models, options.seed, options.cases, keep):
            made.append(row)
            print(row.cells(), flush=True)
    name = COMPRESSED_ONES if options.compressed else SHARED_ONES if options.parallel else FIRST
    told = summary(name, made)
    print(*told, sep=" | ")
    if options.table:
        asked = f"--seed {options.seed} --cases {options.cases}" + " --compressed" * options.compressed
        asked += " --parallel" * options.parallel
        versions = f"mindformers {pair.mindformers} and MindSpore {pair.mindspore}"
        made_by = paragraph(MADE.format(asked=asked, versions=versions))
        lines = [f"## {name}", "", *made_by, *HEAD, *(row.cells() for row in made)]
        PAGE.write_text(page(name, told, lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
