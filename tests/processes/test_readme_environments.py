"""What the READMEs show works in the environments that the two commands of their section "Set up" make."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

from swapconf.cli.main import COMMANDS
from swapconf.words.extras import PACKAGES
from tests.helpers import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

READMES = sorted(ROOT.glob("README*.md"))
SCRIPTS = ROOT / "scripts"
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^(?:\$ )?(swapconf [a-z][^#\n]+|(?:bash |python )?\S+\.(?:sh|py)\b[^#\n]*)", re.MULTILINE)
BENCHMARK = re.compile(r"`(bench_\w+\.py)`")
OF_OPTION = {"dask": "--dask", "report": "--html"}  # extras that a command needs with an option only
INSTEAD_OF_A_COMPILER = "zig"
TRAINING = frozenset({"dryrun", "run"})  # subcommands that start MindSpore in a process of their own


def shown(readme: Path) -> list[str]:
    """The commands in its blocks, and the benchmarks of its table as commands."""
    text = readme.read_text(encoding="utf-8")
    commands = [found for block in FENCE.findall(text) for found in SHELL.findall(block)]
    return [*commands, *(f"python scripts/bench/{name}" for name in BENCHMARK.findall(text))]


def made_by(script: str, folder: Path) -> frozenset[str]:
    """The extras of the environment that a script makes: what it asks `use_environment` for, and what these list."""
    shutil.copy(SCRIPTS / script, folder)
    (folder / "common.sh").write_text('repository=.\nuse_environment() { echo "$@"; exit 0; }\n', encoding="utf-8")
    asked = subprocess.run(["bash", folder / script], capture_output=True, text=True, check=True).stdout.split()
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found: set[str] = set()
    while asked:
        extra = asked.pop()
        found.add(extra)
        inner = (re.fullmatch(r"swapconf\[(.*)\]", line) for line in listed[extra])
        asked += [name for found_one in inner if found_one for name in found_one[1].split(",")]
    return frozenset(found)


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("swapconf", include_external_packages=True, exclude_type_checking_imports=True)


def extras_of(modules: Iterator[str] | set[str]) -> set[str]:
    """The extras whose packages these modules of swapconf import, at once or when they are needed."""
    known = graph()
    used = {one for module in modules if module in known.modules for one in known.find_upstream_modules(module)}
    return {extra for extra, packages in PACKAGES.items() if used & set(packages)}


def imported(script: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def needed(command: str, text: str) -> set[str]:
    """The extras that a command may need. ``text``: the whole page, which may name an option in a sentence only."""
    words = command.split()
    if words[0] == "swapconf":
        name = words[1]
        found = extras_of({f"swapconf.cli.{name.replace('-', '_')}"}) | ({"mindspore"} if name in TRAINING else set())
    else:
        script = next(word for word in words if word.endswith((".sh", ".py")))
        place = next(path for path in (ROOT / script, SCRIPTS / script) if path.exists())
        found = extras_of(imported(place)) | {"mindspore"} if place.suffix == ".py" else set()
    return {extra for extra in found if OF_OPTION.get(extra, "") in text} - {INSTEAD_OF_A_COMPILER}


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
@pytest.mark.parametrize("script", ["demo.sh", "test.sh"])
def test_an_environment_that_a_readme_makes_has_what_its_commands_need(
    readme: Path, script: str, tmp_path: Path
) -> None:
    text, extras = readme.read_text(encoding="utf-8"), made_by(script, tmp_path)
    lacking = {command: needed(command, text) - extras for command in shown(readme)}
    assert {command: extras for command, extras in lacking.items() if extras} == {}


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
def test_commands_of_all_kinds_are_found_in_a_readme(readme: Path) -> None:
    commands = shown(readme)
    for begin in ("swapconf check", "swapconf whatif", "swapconf plan", "swapconf dryrun", "swapconf verify"):
        assert any(command.startswith(begin + " ") for command in commands), begin
    for part in ("scripts/demo.sh", "scripts/test.sh", "run_mindformer.py", "scripts/bench/bench_fold.py"):
        assert any(part in command for command in commands), part


def test_what_a_command_needs_is_told_from_what_it_imports() -> None:
    assert needed("swapconf dryrun a.yaml", "") == {"dryrun", "mindspore"}
    assert needed("swapconf dryrun a.yaml", "swapconf dryrun --html FILE") == {"dryrun", "mindspore", "report"}
    assert needed("swapconf explain a.yaml", "") == set()


def test_each_subcommand_is_a_module_of_its_name() -> None:
    assert {f"swapconf.cli.{name}" for name in COMMANDS} <= graph().modules
