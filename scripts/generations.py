"""docs/evidence/generations.md: swapconf with each pair of mindformers and MindSpore, run for real.

Started by generations.sh. Every pair has an environment of its own that holds these two packages; all others are those
of the environment that this runs in. A pair leaves ``results/PAIR.json``, from which the table is made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import build_families
import demo

from swapconf.files import cache_folder
from swapconf.words.units import show_bytes

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts" / "evidence"))

import pynative_cards  # noqa: E402
import pynative_measured  # noqa: E402
import pynative_runs  # noqa: E402
from evidence_page import opening  # noqa: E402

PAGE = ROOT / "docs/evidence/generations.md"
PLACEHOLDERS = ROOT / "scripts/placeholders"
EXAMPLE = next(example for example in demo.EXAMPLES if example.number == 4)
STEPS_ASIDE = "swapconf: steps aside"
TIMEOUT_SECONDS = 1800

CONFIG = "configs/llama2_7b/example4_swap_with_recompute.yaml"
_SMALL = ("hidden_size=512", "num_heads=8", "seq_length=1024", "vocab_size=1024", "multiple_of=256")
SHAPE = tuple(f"model.model_config.{setting}" for setting in _SMALL)
R2 = (
    *SHAPE,
    "swap_config={swap: true, op_swap: [{op_name: ffn_norm, backward_prefetch: 1, layers: true}]}",
    "recompute_config={select_recompute: {feed_forward: [1]}}",
)

INTRODUCTION = f"""Each pair was run for real by `scripts/generations.sh` (not part of the check), on a CPU without
CANN:

- *lines*: example 4 of `configs/small`, trained with two workers under `swapconf run`; how many of the
  {len(EXAMPLE.lines)} documented lines both workers logged, exactly and in order, while the loss went down.
- *peak*, *moved*: a dry run of example 4 of `configs/llama2_7b` at hidden 512 (4 layers, rank 0): used peak, and
  tensors that the graph copies to the host in one step.
- *R2*: `ffn_norm` swapped in all 4 layers, `feed_forward` of layer 1 recomputed. Tensors that the graph moves in
  layers 0, 1, 2 and 3: under swapconf, with plain mindformers, and the layers in which `swapconf explain` says that
  the swap is in effect. *agree*: all three are the same, tensors and bytes, and the dry run finds no difference to the
  decision.
- *minutes*: of the runs, on a machine that does other work, too; *GB*: what the two packages take.

With mindformers 1.6.0 swapconf steps aside: it says so and what is missing, replaces nothing, and the run is that of
plain mindformers; *lines* are then the ones that both log alike. ENABLE_LAZY_INLINE_NO_PIPELINE=1 is set there, as
`swapconf check` asks. mindformers 2.0.0 needs hyper-parallel, which PyPI does not have: `scripts/placeholders` holds an
empty one, enough for graph mode. MindSpore 2.11.0, for which 2.1.0 is released, is not on PyPI either; and the memory
tracker of 2.7.0, for which 1.6.0 is released, does not write what a dry run reads (which blocks are persistent).

"""

HEAD = (
    "mindformers + MindSpore",
    "lines",
    "peak",
    "moved",
    "R2: swapconf",
    "R2: plain",
    "R2: explained in layers",
    "agree",
    "minutes",
    "GB",
)
OPERATORS = """## Operators of the models

`scripts/generations.sh --catalog` builds every variant of every family from the real cells of a pair, compiles it, and
compares with 1.9.0+2.9.0: the cells and primitives of each layer and their order, which primitives the compiled graph
holds, what the offload pass moves, and who reads whose output; defaults of settings, too. By family, how many operators
differ in any variant; `swapconf/models/families/RELEASE` holds them.

"""


@dataclass(frozen=True, slots=True)
class Pair:
    mindformers: str
    mindspore: str

    @property
    def name(self) -> str:
        return f"{self.mindformers}+{self.mindspore}"

    @property
    def needs_placeholder(self) -> bool:
        return self.mindformers == "2.0.0"


PAIRS = (
    Pair("1.6.0", "2.7.2"),
    Pair("1.7.0", "2.7.1"),
    Pair("1.8.0", "2.7.2"),
    Pair("1.9.0", "2.9.0"),
    Pair("2.0.0", "2.10.0"),
    Pair("2.1.0", "2.10.0"),
)


NATIVE, CARDS, MEASURED = "pynative", "cards", "measured"
NATIVE_PAIRS = (Pair("2.0.0", "2.10.0"), Pair("2.1.0", "2.10.0"))


class PairError(Exception):
    """A step of a pair could not be done; the text says which and shows what was said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """``moved``: tensors and bytes by layer."""

    peak_bytes: int | None
    moved: dict[str, tuple[int, int]]
    findings: tuple[str, ...]

    @property
    def tensors(self) -> int:
        return sum(count for count, _ in self.moved.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """``lines``: found of ``expected``; where swapconf steps aside, those that plain mindformers logs, too."""

    pair: str
    stepped_aside: bool
    lines: int
    expected: int
    example: DryRun
    swapconf: DryRun
    plain: DryRun
    explained: tuple[int, ...]
    minutes: float
    gigabytes: float

    @property
    def agrees(self) -> bool:
        by_explain = {layer for layer, (count, _) in self.swapconf.moved.items() if count} == set(
            map(str, self.explained)
        )
        return self.swapconf.moved == self.plain.moved and by_explain and not self.swapconf.findings

    @property
    def good(self) -> bool:
        return self.lines == self.expected and self.agrees and self.example.peak_bytes is not None


def kept_in() -> Path:
    return cache_folder.place("generations", os.environ)


# --- the environment of a pair --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pair lives. ``python``: the interpreter of its environment."""

    pair: Pair
    folder: Path

    @property
    def environment(self) -> Path:
        return self.folder / "environments" / self.pair.name

    @property
    def work(self) -> Path:
        return self.folder / "work" / self.pair.name

    @property
    def result(self) -> Path:
        return self.folder / "results" / f"{self.pair.name}.json"

    @property
    def python(self) -> str:
        return str(self.environment / "bin/python")

    def variables(self) -> dict[str, str]:
        """For every process of the pair: its programs first, its own caches, nothing of a dry run."""
        base = demo.clean_environment()
        paths = [str(ROOT), *([str(PLACEHOLDERS)] if self.pair.needs_placeholder else [])]
        if self.pair.mindformers == "1.6.0":  # what `swapconf check` asks for there
            base["ENABLE_LAZY_INLINE_NO_PIPELINE"] = "1"
        return {
            **base,
            "PATH": f"{self.environment / 'bin'}:{base.get('PATH', '')}",
            "PYTHONPATH": ":".join(paths),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }


def make(place: Place) -> None:
    """The environment with the pair in it; what is there is kept, and sees the packages of this interpreter."""
    marker = place.environment / "complete"
    if not marker.exists():
        run([sys.executable, "-m", "venv", str(place.environment)], place.folder, dict(os.environ))
    own = Path(
        run(
            [place.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            place.folder,
            dict(os.environ),
        ).strip()
    )
    shared = [folder for folder in sys.path if folder.endswith("site-packages")]
    (own / "shared.pth").write_text("\n".join(shared), encoding="utf-8")  # those of another checkout may be gone
    if marker.exists():
        return
    # --force-reinstall: pip sees the shared packages, too, which may hold the very version
    run(
        [
            place.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--force-reinstall",
            f"mindspore=={place.pair.mindspore}",
            f"mindformers=={place.pair.mindformers}",
        ],
        place.folder,
        dict(os.environ),
    )
    marker.touch()


def run(words: Sequence[str], folder: Path, variables: dict[str, str]) -> str:
    """What a command prints. Raises PairError where it fails."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PairError(f"{' '.join(words)} ended with {done.returncode}:\n{demo.tail(done.stdout + done.stderr)}")
    return done.stdout


def gigabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e9


# --- what is run ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trained:
    """``lines``: the `Set` and `Skip` lines of each worker."""

    lines: tuple[tuple[str, ...], ...]
    losses: tuple[float, ...]
    stepped_aside: bool


def train(place: Place, *, plain: bool = False) -> Trained:
    """Example 4 on the CPU with two workers, by the documented command."""
    variables = {**place.variables(), **({"SWAPCONF_DISABLE": "1"} if plain else {})}
    if not (place.work / "data").exists():
        run(
            [
                place.python,
                str(ROOT / "scripts/make_data.py"),
                str(place.work / "data/small/train.mindrecord"),
                "--seq-length",
                "128",
                "--samples",
                "80",
                "--vocab-size",
                "512",
            ],
            place.work,
            variables,
        )
    folder = demo.prepare(place.work, EXAMPLE)
    command = f"run_mindformer.py --config configs/small/{EXAMPLE.config} --run_mode train --use_parallel True"
    run(
        [
            "bash",
            str(ROOT / "scripts/msrun_launcher.sh"),
            command,
            str(demo.WORKERS),
            str(demo.WORKERS),
            "127.0.0.1",
            str(demo.free_port()),
            "0",
            demo.LOG_FOLDER,
            "True",
            "300",
        ],
        folder,
        variables,
    )
    logs = [
        (folder / demo.LOG_FOLDER / f"worker_{worker}.log").read_text(encoding="utf-8", errors="replace")
        for worker in range(demo.WORKERS)
    ]
    return Trained(
        lines=tuple(tuple(demo.logged(text)) for text in logs),
        losses=tuple(map(float, demo.LOSS.findall(logs[0]))),
        stepped_aside=all(STEPS_ASIDE in text for text in logs),
    )


def dry_run(place: Place, changes: Sequence[str], *options: str) -> DryRun:
    words = [
        place.python,
        "-m",
        "swapconf",
        "dryrun",
        str(ROOT / CONFIG),
        "--ranks",
        "0",
        "--jobs",
        "1",
        "--no-cache",
        "--format",
        "json",
        *options,
    ]
    text = run([*words, *(word for change in changes for word in ("--set", change))], place.work, place.variables())
    (report,) = json.loads(text)
    differing = [
        finding
        for finding in report["findings"]
        if finding["rule"] in ("decision-without-effect", "effect-without-decision")
    ]
    return DryRun(
        peak_bytes=report["used_peak_bytes"],
        moved={move["layer"]: (move["tensors"], move["bytes"]) for move in report["moved"]},
        findings=tuple(f"{finding['rule']}: {finding['message']}" for finding in differing),
    )


def explained(place: Place) -> tuple[int, ...]:
    """The layers in which `swapconf explain` says that a swap is in effect, in the case of R2."""
    file = place.work / "r2.yaml"
    file.write_text(
        run([place.python, "-c", _WRITE_R2, str(ROOT / CONFIG), *R2], place.work, place.variables()), encoding="utf-8"
    )
    layers = json.loads(
        run([place.python, "-m", "swapconf", "explain", str(file), "--format", "json"], place.work, place.variables())
    )["layers"]
    return tuple(
        int(layer["layer"]) for layer in layers if any(site["effective"].startswith("swap") for site in layer["sites"])
    )


_WRITE_R2 = """
import sys, yaml
from swapconf.config import overrides
print(yaml.safe_dump(overrides.read(["--config", sys.argv[1]], sys.argv[2:]).root.plain(), sort_keys=False))
"""


def read_cells(place: Place) -> None:
    """Write what the catalog says of the pair's models: minutes for a family. Raises PairError at the end, with those
    that cannot be built (the mcore models of 1.7.0 refuse a setting that later ones ask for)."""
    make(place)
    failed = []
    for family in build_families.FAMILIES:
        script = str(ROOT / "scripts/build_families.py")
        try:
            run([place.python, script, "--family", family], place.folder, place.variables())
        except PairError as error:
            failed.append(f"{family}: {error}")
    if failed:
        raise PairError("\n".join(failed))


def measure(place: Place) -> Result:
    make(place)
    place.work.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    trained = train(place)
    if len(trained.losses) < 2 or not trained.losses[-1] < trained.losses[0]:
        raise PairError(f"{place.pair.name}: the loss does not go down: {trained.losses}")
    wanted: tuple[str, ...] = EXAMPLE.lines
    if trained.stepped_aside:
        plain = train(place, plain=True)
        wanted = plain.lines[0]
        if trained.losses != plain.losses:
            raise PairError(
                f"{place.pair.name}: stepping aside, it trains otherwise than plain mindformers: "
                f"{trained.losses}, {plain.losses}"
            )
    found = min(
        sum(one == other for one, other in zip(lines, wanted, strict=False)) if len(lines) == len(wanted) else 0
        for lines in trained.lines
    )
    return Result(
        pair=place.pair.name,
        stepped_aside=trained.stepped_aside,
        lines=found,
        expected=len(wanted),
        example=dry_run(place, SHAPE, "--keep", str(place.work / "traces")),
        swapconf=dry_run(place, R2),
        plain=dry_run(place, R2, "--plain"),
        explained=explained(place),
        minutes=(time.monotonic() - begin) / 60,
        gigabytes=gigabytes(place.environment),
    )


# --- the table ------------------------------------------------------------------------------------------------------


def load(data: dict[str, Any]) -> Result:
    runs = {
        name: DryRun(
            peak_bytes=data[name]["peak_bytes"],
            findings=tuple(data[name]["findings"]),
            moved={layer: (count, size) for layer, (count, size) in data[name]["moved"].items()},
        )
        for name in ("example", "swapconf", "plain")
    }
    return Result(**{**data, **runs, "explained": tuple(data["explained"])})


def row(result: Result) -> str:
    return f"| {' | '.join(_cells(result))} |"


def _cells(result: Result) -> tuple[str, ...]:
    """As HEAD."""
    lines = f"{result.lines} of {result.expected}" + (", steps aside" if result.stepped_aside else "")
    return (
        result.pair,
        lines,
        f"{result.example.peak_bytes:,} B",
        str(result.example.tensors),
        _by_layer(result.swapconf),
        _by_layer(result.plain),
        ", ".join(map(str, result.explained)),
        "yes" if result.agrees else "no",
        f"{result.minutes:.0f}",
        f"{result.gigabytes:.1f}",
    )


def _by_layer(seen: DryRun) -> str:
    counts = " + ".join(str(count) for _, (count, _) in sorted(seen.moved.items()))
    return f"{counts}, {show_bytes(sum(size for _, size in seen.moved.values()))}"


def page(results: Sequence[Result]) -> str:
    alike = sum(result.lines == result.expected for result in results)
    agree = sum(result.agrees for result in results)
    told = (
        f"With {alike} of {len(results)} pairs of mindformers and MindSpore both workers of a real training log the "
        f"{len(EXAMPLE.lines)} documented lines. With {agree} of them what `swapconf explain` says of a swap beside a "
        "recompute, what its run moves and what plain mindformers moves is the same."
    )
    rows = list(map(_cells, results))
    return "\n".join([*opening("Generations of mindformers and MindSpore", told, HEAD, rows), INTRODUCTION]) + (
        operators_section()
    )


def operators_section() -> str:
    """What the deltas of the catalog say, counted."""
    pairs = [pair for pair in PAIRS if (build_families.SHIPPED / pair.mindformers).is_dir()]
    head = ("mindformers + MindSpore", *build_families.FAMILIES)
    rows = [(pair.name, *(_differing(pair, family) for family in build_families.FAMILIES)) for pair in pairs]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]
    return OPERATORS + "\n".join(lines) + "\n"


def _differing(pair: Pair, family: str) -> str:
    file = build_families.SHIPPED / pair.mindformers / f"{family}.json"
    if not file.exists():
        return "not read"
    changed = {row["path"] for row in json.loads(file.read_text(encoding="utf-8"))["operators"]}
    return str(len(changed)) if changed else "the same"


def dry_run_native(folder: Path, *, is_written: bool, is_run: bool) -> int:
    """Dry runs of PyNative trainings; the placeholder for hyper_parallel is no part of it. Without ``is_run`` only the
    environments are made, which tests use."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        places = [Place(pair, folder) for pair in NATIVE_PAIRS]
        for place in places:
            make(place)
        if not is_run:
            return 0
        environments = [
            pynative_runs.Environment(
                mindformers=place.pair.mindformers,
                mindspore=place.pair.mindspore,
                python=place.python,
                variables={**place.variables(), "PYTHONPATH": str(ROOT)},
                kept=folder / "results" / NATIVE,
            )
            for place in places
        ]
        return int(not pynative_runs.run(environments, is_written=is_written))
    except (PairError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{NATIVE}: {error}", file=sys.stderr, flush=True)
        return 1


def dry_run_cards(folder: Path, names: Sequence[str], *, is_written: bool) -> int:
    """Dry runs of public runs on cards, with the newest mindformers."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(NATIVE_PAIRS[-1], folder)
    try:
        make(place)
        variables = {**place.variables(), "PYTHONPATH": str(ROOT)}
        pynative_cards.run(
            lambda settings, rank, keep: pynative_runs.dryrun(
                place.python,
                variables,
                pynative_runs.config_of(pynative_cards.CONFIG),
                settings,
                *("--ranks", str(rank), "--launch-blocking", "--keep", str(keep)),
            ),
            folder / "results" / CARDS,
            names,
            is_written=is_written,
        )
    except (PairError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{CARDS}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def dry_run_measured(folder: Path, *, is_written: bool) -> int:
    """Dry runs of a public training on two cards, with each mindformers that trains in PyNative mode."""
    folder.mkdir(parents=True, exist_ok=True)
    places = [Place(pair, folder) for pair in NATIVE_PAIRS]

    def of(place: Place) -> Callable[[Sequence[str], Path], Mapping[str, Any]]:
        variables = {**place.variables(), "PYTHONPATH": str(ROOT)}
        blocking = ("--ranks", "0", "--launch-blocking", "--keep")
        return lambda settings, keep: pynative_runs.dryrun(
            place.python, variables, pynative_measured.SHAPE, settings, *blocking, str(keep)
        )

    try:
        for place in places:
            make(place)
        by_release = {place.pair.mindformers: of(place) for place in places}
        pynative_measured.run(by_release, folder / "results" / MEASURED, is_written=is_written)
    except (PairError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{MEASURED}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="generations.sh")
    parser.add_argument("--folder", type=Path, default=kept_in())
    parser.add_argument("--table", action="store_true", help="write docs/evidence/generations.md from all that was run")
    parser.add_argument("--catalog", action="store_true", help="only read the operators of the pair's models")
    parser.add_argument("--install", action="store_true", help="only make the environments")
    parser.add_argument("pairs", nargs="*", metavar="MINDFORMERS+MINDSPORE")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.pairs[:1] == [CARDS]:
        return dry_run_cards(folder, options.pairs[1:], is_written=options.table)
    if options.pairs == [MEASURED]:
        return dry_run_measured(folder, is_written=options.table)
    if options.pairs == [NATIVE]:
        return dry_run_native(folder, is_written=options.table, is_run=not options.install)
    chosen = [Pair(*name.split("+")) for name in options.pairs] or list(PAIRS)
    failed = False
    for place in [Place(pair, folder) for pair in chosen]:
        for needed in (place.folder, place.work, place.result.parent):
            needed.mkdir(parents=True, exist_ok=True)
        try:
            if options.install:
                make(place)
                continue
            if options.catalog:
                read_cells(place)
                continue
            if not place.result.exists():
                place.result.write_text(json.dumps(asdict(measure(place)), indent=1), encoding="utf-8")
            result = load(json.loads(place.result.read_text(encoding="utf-8")))
            failed |= not result.good
            print(row(result), *result.swapconf.findings, sep="\n", flush=True)
        except (PairError, subprocess.TimeoutExpired) as error:
            failed = True
            print(f"{place.pair.name}: {error}", file=sys.stderr, flush=True)
    if options.table:
        kept = [
            load(json.loads(place.result.read_text(encoding="utf-8")))
            for place in [Place(pair, folder) for pair in PAIRS]
            if place.result.exists()
        ]
        PAGE.write_text(page(kept), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
