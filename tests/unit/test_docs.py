"""The documentation says what is so: rule pages, links, and every command whose output is shown."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import build_rule_docs
import pytest
import yaml

from swapconf.plan import keys, planned
from swapconf.plan.planned import plan, to_ask
from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions
from swapconf.words.findings import has_errors
from tests.helpers import ROOT, invoke

DOCS = ROOT / "docs"
RULES = DOCS / "reference" / "rules.md"
HOW_TO = DOCS / "how-to"
SHOWING = [ROOT / "README.md", *HOW_TO.glob("*.md"), DOCS / "reference" / "exit-codes.md"]
PAGES = sorted([*ROOT.glob("README*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SEARCHED: dict[tuple[str, ...], planned.Planned] = {}
RULE_NAME = re.compile(r"(R\d-)?[a-z]+(-[a-z]+)*")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


# --- rules ----------------------------------------------------------------------------------------------------------


def test_the_rule_pages_are_those_of_the_docstrings() -> None:
    made = build_rule_docs.render()
    assert RULES.read_text(encoding="utf-8") == made, "run: just generate"


def names_in(tree: ast.AST) -> Iterator[str]:
    """Names of rules in a module: constants such as RULE or R1, ``rule=`` arguments, and bare words given to a call
    that makes a finding or a reason."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if any(isinstance(t, ast.Name) and re.fullmatch(r"RULE|R\d", t.id) for t in node.targets):
                yield str(node.value.value)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [k.value for k in node.keywords if k.arg == "rule"]
            if re.fullmatch(r"_?(finding|refusal|refuse)", called):
                given += [a for a in node.args if isinstance(a, ast.Constant) and "-" in str(a.value)]
            elif called == "Reason":
                given += node.args[:1]
            yield from (str(value.value) for value in given if isinstance(value, ast.Constant))


def test_every_rule_is_documented() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "swapconf").rglob("*.py")]
    emitted = {name for source in sources for name in names_in(ast.parse(source)) if RULE_NAME.fullmatch(name)}
    text = RULES.read_text(encoding="utf-8")
    documented = set(re.findall(r"^(?:### |\| `)([\w-]+)(?:`|$)", text, re.MULTILINE))
    assert len(emitted) > 40
    assert emitted - documented == set()


# --- links ----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def linked_from(page: Path) -> set[Path]:
    links = re.findall(r"\]\(([^)#]+)", FENCE.sub("", page.read_text(encoding="utf-8")))
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def test_every_page_can_be_reached_from_the_index_and_the_index_from_the_readmes() -> None:
    assert set(DOCS.rglob("*.md")) - linked_from(DOCS / "index.md") == {DOCS / "index.md"}
    for readme in ROOT.glob("README*.md"):
        assert DOCS / "index.md" in linked_from(readme)


def test_every_page_that_a_text_of_the_code_names_exists() -> None:
    named = {
        (path.relative_to(ROOT), page)
        for folder in ("swapconf", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
        for page in re.findall(r"\bdocs/[\w/-]+\.\w+", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    assert not [(str(path), page) for path, page in sorted(named) if not (ROOT / page).exists()]


# --- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    sorted({block for page in SHOWING for block in blocks(page, "console")}),
    ids=lambda text: text.splitlines()[0][2:],
)
def test_a_page_shows_what_the_command_prints(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, *expected = shown.splitlines()
    words = shlex.split(command)
    assert words[:2] == ["$", "swapconf"]
    search_once(words, monkeypatch)
    monkeypatch.chdir(ROOT)
    done = invoke(*words[2:])
    assert [line.rstrip() for line in done.output.rstrip().splitlines()] == expected


def search_once(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One search does for commands that show the same plan in several forms."""
    asked = tuple(word for word in words if word != "--diff")

    def once(*given: Any, **named: Any) -> planned.Planned:
        if asked not in SEARCHED:
            SEARCHED[asked] = plan(*given, **named)
        return SEARCHED[asked]

    monkeypatch.setattr(keys, "plan", once)  # where it is asked; a module that is imported meanwhile would keep it


def test_both_readmes_show_the_same() -> None:
    english, chinese = (
        FENCE.findall((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "README_CN.md")
    )
    assert english == chinese


@pytest.mark.parametrize("section", blocks(HOW_TO / "write-a-yaml.md", "yaml"))
def test_the_sections_in_the_how_to_have_no_errors(section: str, tmp_path: Path) -> None:
    base = yaml.safe_load((ROOT / "configs/llama2_7b/example1_default_swap.yaml").read_text(encoding="utf-8"))
    config = tmp_path / "config.yaml"
    shown = yaml.safe_load(section)
    for name in shown.get("base_config", ()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    config.write_text(yaml.safe_dump({**base, **shown}), encoding="utf-8")
    findings = study_file(config, Versions(), {}).findings
    assert not has_errors(findings), "\n".join(map(str, findings))


def test_the_functions_in_the_how_to_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(planned, "to_ask", lambda judge, effort: to_ask(judge, 0.1))  # any plan will do
    monkeypatch.chdir(ROOT)
    exec(next(block for block in blocks(HOW_TO / "python.md", "python") if "swapconf.check" in block), {})
    *_, layer, predicted, needed = capsys.readouterr().out.splitlines()
    assert layer == "3 Swap(prefetch=10)"
    assert all(int(word) > 0 for word in [*predicted.split(), *needed.split()])


def test_the_glossary_has_every_word_once_in_the_order_of_the_alphabet() -> None:
    words = re.findall(r"^\| ([^|]+) \|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)[1:]
    assert words == sorted(set(words), key=str.lower)
    assert {
        "baseline",
        "effect",
        "fold",
        "grown trace",
        "pass",
        "phase",
        "placement",
        "plan",
        "site",
        "stall",
        "study",
        "sweep",
        "variant",
        "workspace",
    } <= set(words)
