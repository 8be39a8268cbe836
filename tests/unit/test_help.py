"""The helps: what each has to hold, examples that work, another language, and the page made of them."""

from __future__ import annotations

import gettext
import shlex
from collections.abc import Iterator
from pathlib import Path

import build_command_docs
import click
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from swapconf.cli.help import Context, paragraphs, summary, texts, wrapped
from swapconf.cli.main import COMMANDS, SECTIONS, main
from swapconf.words import phrases
from tests.helpers import ROOT

NAMES = [name.replace("_", "-") for name in COMMANDS]


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def examples() -> Iterator[str]:
    for name in NAMES:
        for part in paragraphs(command(name).help):
            if part.startswith("\b"):
                lines = part.replace("\\\n", " ").split("\n")[1:]
                yield from (line for line in lines if line.startswith("swapconf "))


@pytest.mark.parametrize("name", NAMES)
def test_every_help_teaches(name: str) -> None:
    parts = list(paragraphs(command(name).help))
    assert parts[0].endswith("."), "the first paragraph is one sentence"
    assert ". " not in parts[0]
    assert any(part.startswith("\b") and f"\nswapconf {name}" in part for part in parts)
    assert parts[-1].startswith("Exit codes: ")
    assert len(parts) > 3 or name == "families"


def test_every_command_stands_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == list(COMMANDS)
    shown = CliRunner().invoke(main, ["--help"]).stdout
    for name in NAMES:
        assert f"\n  {name} " in shown
    for word in ("--lang", "swapconf completion", "docs/reference/commands.md"):
        assert word in " ".join(shown.split())


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in examples()
        if all((ROOT / word).exists() for word in line.split() if "/" in word)
        and not any(
            word in line
            for word in (
                "dryrun",
                "--output",
                "--write",
                "modeline",
                "train.yaml",
                ".yaml --to mcore",
                " run ",
                "verify",
                "pynative.yaml",
                "b.yaml",
                "swap.yaml",
            )
        )
    ],
)
def test_examples_work_as_they_stand(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    assert result.exit_code in (0, 1), result.output


def test_enough_examples_work_as_they_stand() -> None:
    whole = [line.split()[1] for line in examples() if " configs" in line or "tests/traces" in line]
    assert set(whole) >= {
        "check",
        "compare",
        "dryrun",
        "explain",
        "fragmentation",
        "memory",
        "migrate",
        "modeline",
        "run",
        "timeline",
        "whatif",
    }


def test_examples_are_right_command_lines() -> None:
    for line in examples():
        name, *words = shlex.split(line.partition(" > ")[0])[1:]
        with command(name).make_context(name, words, resilient_parsing=True) as context:
            assert not [
                option
                for option in words
                if option.startswith("--")
                and not any(option in parameter.opts + parameter.secondary_opts for parameter in context.command.params)
                and name != "run"
            ], line


def test_the_page_of_the_commands_is_made_from_the_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLUMNS", "40"), ("LC_ALL", "zh_CN.UTF-8"), ("SWAPCONF_LANG", "zh")):
        monkeypatch.setenv(name, value)
    made = build_command_docs.render()
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == made, "run: just generate"


# --- another language -----------------------------------------------------------------------------------------------


class Foreign(gettext.NullTranslations):
    """Every text in Chinese, as long as it is in English."""

    def gettext(self, message: str) -> str:
        return "题：" if message.endswith(":") else "译" + "文（swapconf），" * (len(message) // 8) + "完。"


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "_catalogue", lambda _: Foreign())


@pytest.mark.parametrize("name", ["", *NAMES])
@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_of_a_foreign_help_is_too_wide(name: str, columns: int, foreign: None) -> None:
    phrases.use("zh")
    found = command(name) if name else main
    lines = found.get_help(Context(found, info_name="swapconf", terminal_width=columns)).splitlines()
    raw = [f"  {line}" for part in paragraphs(found.help) if part.startswith("\b") for line in part.split("\n")[1:]]
    assert set(raw) <= set(lines), "examples stay as they are"
    said = [line for line in lines if line not in raw and "译" in "".join(lines) and "[" not in line]
    assert max(map(cell_len, said)) <= columns
    assert not [line for line in said if line.strip()[:1] in ("，", "。", "）")]


@pytest.mark.parametrize(
    "words",
    [
        ["--lang", "zh", "check", "--help"],
        ["check", "--lang", "zh", "--help"],
        ["check", "--help", "--lang", "zh"],
        ["--help", "--lang", "zh"],
        ["--lang", "zh", "run", "--help"],
    ],
)
def test_the_help_is_in_the_language_asked_for(words: list[str], foreign: None) -> None:
    shown = CliRunner().invoke(main, words).stdout
    assert "译文（swapconf），" in shown
    assert "Exit codes" not in shown
    assert "Exit codes" in CliRunner().invoke(main, ["check", "--help"]).stdout


def test_lines_are_broken_by_what_is_shown() -> None:
    assert wrapped("换出（swap）的用法。使用 --lang 选项", 10) == [
        "换出",
        "（swap）的",
        "用法。使用",
        "--lang 选",
        "项",
    ]
    assert wrapped("", 10) == [""]
    assert wrapped("a-very-long-word 完", 5) == ["a-very-long-word", "完"]


def test_what_click_adds_to_an_option_stays(foreign: None) -> None:
    shown = CliRunner().invoke(main, ["migrate", "--help", "--lang", "zh"]).stdout
    assert "[x>=1]" in shown.replace("\n", "") or "x>=1]" in shown
    assert "default: " not in shown


def test_all_texts_of_a_help_are_for_the_catalogue() -> None:
    check = command("check")
    assert {summary(check), "Warnings fail the check too.", "Show this message and exit."} <= set(texts(check))
    assert not [text for text in texts(check) if "\n" in text or "\b" in text]


def test_the_page_is_linked() -> None:
    for page in ("README.md", "README_CN.md", "docs/index.md"):
        assert "commands.md" in Path(ROOT / page).read_text(encoding="utf-8")
