#!/usr/bin/env python3
"""Every training YAML to each other dialect and back, as the page docs/evidence/migrate.md.

    python scripts/evidence/migrate_table.py FOLDER [--out docs/evidence/migrate.md]

FOLDER holds training YAMLs (those that mindformers r1.8.0 ships, say); the documented examples in configs/ come first.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence_page import opening

from swapconf.config import rewriting, yaml_config
from swapconf.config.config import Config, DefaultSwap, Dialect, ListedSwap, RecomputeConfig, SwapOff
from swapconf.config.yaml_document import read_text
from swapconf.migrate.migrate import Migration, MigrationOrder, kinds, migrate
from swapconf.migrate.report import Fate
from swapconf.migrate.to_pynative import to_pynative
from swapconf.upstream.facts import Versions
from swapconf.words.findings import SwapconfError

ROOT = Path(__file__).resolve().parents[2]
REFUSED = "-"

# how the report's sentences are shortened: a part of the sentence, and its word in the table
SHORT = (
    ("builds a legacy model", "legacy model reads no swap there"),
    ("pipeline stages", "swap with pipeline stages"),
    ("no default strategy", "default strategy"),
    ("cannot swap layer", "swap of the last layer"),
    ("one prefetch for everything", "different prefetches"),
    ("mp_comm_recompute", "mp_comm_recompute: False"),
    ("recompute_slice_activation", "recompute_slice_activation: True"),
    ("parallel_optimizer_comm_recompute", "parallel_optimizer_comm_recompute: True"),
    ("exclusion by path", "exclusion by path"),
    ("how many there are", "every layer, of an unknown number"),
    ("counts do not fit", "counts that do not fit the stages"),
    ("decided otherwise", "decisions"),
)

COMMENT = "Made by scripts/evidence/migrate_table.py; edit that."
SHORT_HEAD = ("what", "to", "rewritings", "lose something", "back")
HOW = """\
Each training YAML is written in each other dialect by `swapconf migrate --accept-loss`, and that file is written back.
*There*: what `migrate` reports as lost (without `--accept-loss` it writes nothing then and ends with 1). *Back*: the
result against the original: **same config** (swap and recompute are equal, key by key), **same strategy** (every
operator is kept, swapped or recomputed as before, in other words), **same but for what was lost**, or at how many
operators the two differ (only in files where something was lost). A prefetch has another unit in PyNative and no
conversion, so on the way back `--prefetch` gives the first one of the original. What each dialect can say:
[dialects](../reference/dialects.md).

Every file stays the same, byte by byte, outside the sections for swap and recompute.

"""


@dataclass(frozen=True, slots=True)
class Trip:
    target: Dialect
    there: str
    back: str
    nothing_lost: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "evidence" / "migrate.md")
    arguments = parser.parse_args()
    examples = [*sorted((ROOT / "configs").rglob("*.yaml"))]
    corpus = sorted(arguments.folder.rglob("*.yaml"))
    pynative = sorted((ROOT / "tests" / "examples").glob("valid_pynative*.yaml"))
    groups = [
        ("The documented examples", examples, ROOT / "configs"),
        (f"{len(corpus)} training YAMLs that mindformers ships", corpus, arguments.folder),
        ("Documented PyNative sections", pynative, ROOT / "tests" / "examples"),
    ]
    gone = {name: [made for file in files for made in trips_of(file, root)] for name, files, root in groups}
    rows = [line for name, made in gone.items() for line in summary(name, made)]
    every = [trip for made in gone.values() for _, trip, _ in made if trip.back != REFUSED]
    free = [trip for trip in every if trip.nothing_lost]
    result = (
        f"{sum(trip.back.startswith('same') for trip in free)} of {len(free)} rewritings that lose nothing come back "
        f"the same. {len(every) - len(free)} of {len(every)} lose something, and say so before they are written."
    )
    parts = [
        *(f"{line}\n" for line in opening("Migration, there and back", result, SHORT_HEAD, rows, COMMENT)),
        HOW,
        *(part for name, made in gone.items() for part in (f"## {name}\n\n", *table(made))),
    ]
    arguments.out.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {arguments.out}")


Made = tuple[str, Trip, Config]  # the name of a file, one way that it went, its config


def trips_of(file: Path, root: Path) -> Iterator[Made]:
    name = file.relative_to(root).as_posix().removeprefix("mindformers-r1.8.0/")
    yield from ((name, trip, config) for trip, config in trips(file))


def summary(name: str, made: list[Made]) -> Iterator[tuple[str, ...]]:
    """Rows of SHORT_HEAD, one for each dialect."""
    ways = [trip for _, trip, _ in made]
    for target in dict.fromkeys(trip.target for trip in ways):
        told = [trip for trip in ways if trip.target is target]
        back = Counter(
            "refused" if trip.back == REFUSED else trip.back if trip.back.startswith("same") else "differ"
            for trip in told
        )
        lost = sum(not trip.nothing_lost and trip.back != REFUSED for trip in told)
        counts = ", ".join(f"{count} {word}" for word, count in sorted(back.items()))
        yield name, target.value, str(len(told)), str(lost), counts


def table(made: list[Made]) -> Iterator[str]:
    yield "| file | asks for | to | lost there | back |\n|---|---|---|---|---|\n"
    for name, trip, config in made:
        yield f"| {name} | {asked(config)} | {trip.target.value} | {trip.there} | {trip.back} |\n"
    yield "\n"


def trips(file: Path) -> Iterator[tuple[Trip, Config]]:
    text = read_text(file)
    versions = Versions(**dict(re.findall(r"^# (mindspore|mindformers): (\S+)$", text, re.MULTILINE)))
    for target in Dialect:
        try:
            there = migrate(text, file.name, MigrationOrder(target=target, versions=versions))
            source = there.before.dialect
            if source is target:
                continue
            back = migrate(
                there.text,
                file.name,
                MigrationOrder(target=source, source=target, versions=versions, prefetch=first_prefetch(there.before)),
            )
        except SwapconfError as error:
            config, _ = yaml_config.read(file)
            yield Trip(target, f"refused: {error.findings[0].message}", REFUSED, False), config
            continue
        yield Trip(target, lost_there(there), compared(there, back, versions), not there.lost), there.before


def first_prefetch(config: Config) -> int:
    swap = config.swap
    prefetches = (
        [entry.prefetch for entries in (swap.layer_swap, swap.op_swap) for entry in entries]
        if isinstance(swap, ListedSwap)
        else []
    )
    return prefetches[0] if prefetches else 1


def lost_there(done: Migration) -> str:
    texts = [item.text for item in done.items if item.fate is Fate.LOST]
    words = [next((word for part, word in SHORT if part in text), text) for text in texts]
    return ", ".join(dict.fromkeys(words)) or "nothing"


def compared(there: Migration, back: Migration, versions: Versions) -> str:
    before, after = there.before, back.after
    if rewriting.asked(before) == rewriting.asked(after):
        return "same config"
    one, other = kinds(before, versions), kinds(after, versions)
    differ = sum(one[site] != other[site] for site in one)
    if differ:
        return f"differs at {differ:,} of {len(one):,} operators"
    # without a catalog, and for what is no decision at an operator: the same layers for the same patterns
    forms = [config if config.dialect is Dialect.PYNATIVE else to_pynative(config)[0] for config in (before, after)]
    same = len({rewriting.asked(form) for form in forms}) == 1
    return ("same but for what was lost" if there.lost else "same strategy") if same else "differs, see what was lost"


def asked(config: Config) -> str:
    words = (
        [] if isinstance(config.swap, SwapOff) else ["default swap" if isinstance(config.swap, DefaultSwap) else "swap"]
    )
    plain = RecomputeConfig()
    words += ["recompute"] * (config.recompute.full is not None)
    words += ["select_recompute"] * (config.recompute.select != plain.select)
    words += ["select_comm_recompute"] * (config.recompute.select_comm != plain.select_comm)
    return ", ".join(words) or "nothing"


if __name__ == "__main__":
    main()
