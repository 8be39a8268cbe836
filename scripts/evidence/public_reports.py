#!/usr/bin/env python3
"""What swapconf says to public reports of people who train on Ascend, as the page docs/evidence/public-reports.md.

    PYTHONPATH=. python scripts/evidence/public_reports.py [--slow] [--check]

The reports, rebuilt small, are in tests/reports/public: reports.yaml tells where each is from, what was asked, what was
answered there, which commands are run on it and how their answer was judged. --slow makes the dry runs again, too,
which takes mindspore and minutes; without it their kept output is read. --check writes nothing.
Exit code 1 where an answer lacks what it is known to say, or, with --check, the page is not what would be written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "reports" / "public"
PAGE = ROOT / "docs" / "evidence" / "public-reports.md"
MADE_BY = "<!-- Made by scripts/evidence/public_reports.py; edit that, or tests/reports/public/reports.yaml. -->"
MOST_SHOWN = 230


@dataclass(frozen=True)
class Answer:
    """``shown``: the lines that answer, one for each part that is known; ``lacking``: parts that no line has."""

    report: dict[str, Any]
    shown: tuple[str, ...]
    lacking: tuple[str, ...]
    is_right: bool
    note: str


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--slow", action="store_true")
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    answers = [answer(report, again=given.slow) for report in reports()]
    for one in answers:
        for part in one.lacking:
            print(f"{one.report['name']}: no line says {part!r}")
    text = "\n".join(page(answers)) + "\n"
    differs = given.check and text != PAGE.read_text(encoding="utf-8")
    if differs:
        print(f"differs: {PAGE.relative_to(ROOT)}")
    if not given.check:
        PAGE.write_text(text, encoding="utf-8")
    sys.exit(differs or any(one.lacking for one in answers))


def reports() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / "reports.yaml").read_text(encoding="utf-8"))
    return found


def answer(report: dict[str, Any], *, again: bool = False) -> Answer:
    lines = [line for text in outputs(report, again=again) for line in text.splitlines()]
    found = {part: next((line for line in lines if part in line), None) for part in report["says"]}
    return Answer(
        report,
        shown=tuple(_shown(line, report["name"]) for line in dict.fromkeys(found.values()) if line is not None),
        lacking=tuple(part for part, line in found.items() if line is None),
        is_right=report["judged"] == "right",
        note=report.get("note", ""),
    )


def outputs(report: dict[str, Any], *, again: bool = False) -> Iterator[str]:
    """Of each command what it prints; of a dry run what is kept, if it is not made ``again``."""
    folder, kept = FOLDER / report["name"], report.get("kept", ())
    for number, words in enumerate(report["runs"]):
        if not kept:
            yield _output(arguments(words, folder))
            continue
        file = folder / kept[number]
        if again:
            told = _output(arguments(words, folder)).splitlines(keepends=True)
            file.write_text("".join(line for line in told if "ranks done)" not in line), encoding="utf-8")
        yield file.read_text(encoding="utf-8")


def arguments(words: Sequence[str], folder: Path) -> list[str]:
    """The words of a command, with the report's own files by their paths."""
    return [str((folder / word).relative_to(ROOT)) if (folder / word).exists() else word for word in words]


def _output(words: Sequence[str]) -> str:
    command = [sys.executable, "-m", "swapconf", *words]
    environment = {**os.environ, "SWAPCONF_LANG": "en", "COLUMNS": "400"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def page(answers: Sequence[Answer]) -> Iterator[str]:
    right = sum(one.is_right for one in answers)
    yield MADE_BY
    yield "# Public reports"
    yield ""
    count = len(answers)
    yield f"Of {count} public reports of training on Ascend, none of them among those that swapconf was made with,"
    yield f"{right} are answered rightly. Of an answer that is none, or tells a part, the row gives the reason."
    yield ""
    yield "| what is asked | reports | right | explained |"
    yield "|---|---:|---:|---:|"
    asked = Counter(one.report["kind"] for one in answers)
    rightly = Counter(one.report["kind"] for one in answers if one.is_right)
    for kind, number in asked.items():
        yield f"| {kind} | {number} | {rightly[kind]} | {number - rightly[kind]} |"
    yield ""
    yield from (
        "The reports were searched for among issues, forums and pages, for what people who do this job ask: memory",
        "that runs out, recompute that saves nothing, swap that fails. Each is rebuilt small in tests/reports/public:",
        "figures, keys and lines of errors are those of the report, all else is made up. *Answered there*: what the",
        "thread or the page came to; where it came to nothing, what figures or mindformers' own code tell. *Right*:",
        "cause and remedy are that, or follow from it. Shown are the lines that answer, without names of folders.",
    )
    yield ""
    yield "| source | asked | answered there | swapconf says | right? |"
    yield "|---|---|---|---|---|"
    for one in answers:
        yield _row(one)


def _row(one: Answer) -> str:
    report = one.report
    source = f"[{report['source']}]({report['link']})" if "link" in report else report["source"]
    commands = ", ".join(dict.fromkeys(words[0] for words in report["runs"]))
    says = "<br>".join([f"`swapconf {commands}`:", *(f"`{line}`" for line in one.shown)])
    verdict = "right" if one.is_right else "explained"
    cells = source, report["asked"], report["answer"], says, f"{verdict}: {one.note}" if one.note else verdict
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(line: str, name: str) -> str:
    """A line as a cell has it: one blank between words, no folders, not too long."""
    text = " ".join(line.replace(f"tests/reports/public/{name}/", "").split()).replace("`", "'")
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN].rpartition(" ")[0] + " ..."


if __name__ == "__main__":
    main()
