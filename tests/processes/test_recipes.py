"""The justfile: hooks, scripts and pages name recipes that exist, and each command line stands in one place."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import swapconf
from tests.helpers import ROOT

JUST = Path(sys.executable).with_name("just")
NAMED = re.compile(r"(?:^|`|exec |run )just ([a-z][a-z-]*)", re.MULTILINE)
needs_just = pytest.mark.skipif(not JUST.exists(), reason="the extra dev is not installed here")


def just(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [JUST, *words], cwd=ROOT, env={**os.environ, **variables}, text=True, capture_output=True, check=False
    )


@cache
def recipes() -> Mapping[str, Any]:
    return dict(json.loads(just("--dump", "--dump-format", "json").stdout)["recipes"])


@needs_just
@pytest.mark.parametrize(
    "file",
    [
        ".pre-commit-config.yaml",
        "scripts/test.sh",
        "scripts/generate.py",
        "justfile",
        "README.md",
        "README_CN.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/architecture.md",
    ],
)
def test_every_recipe_that_is_named_exists(file: str) -> None:
    if (ROOT / file).exists():
        named = set(NAMED.findall((ROOT / file).read_text(encoding="utf-8")))
        assert named - set(recipes()) == set()


@needs_just
def test_a_recipe_that_people_run_says_what_it_does() -> None:
    assert [name for name, recipe in recipes().items() if not recipe["private"] and not recipe["doc"]] == []


@needs_just
def test_lint_runs_every_check_although_one_fails(tmp_path: Path) -> None:
    """The tools stand for themselves here: each only tells that it was called, and one fails."""
    for name in ("ruff", "mypy", "lint-imports"):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\necho "called: {name} $1"\nexit {int(name == "mypy")}\n')
        tool.chmod(0o755)
    done = just("lint", SWAPCONF_PYTHON=str(tmp_path / "python"))
    assert re.findall("called: (.*?) ?\n", done.stdout) == ["ruff check", "ruff format", "mypy", "lint-imports"]
    assert done.returncode == 1
    assert "failed: types\n" in done.stderr


def test_tools_are_called_by_recipes_only() -> None:
    """So hook, laptop and CI cannot come to differ."""
    tools = re.compile(r"^(?!\s*#).*\b(ruff (check|format)|mypy|lint-imports|-m pytest)\b", re.MULTILINE)
    for file in (".ci/run", "scripts/test.sh", "scripts/common.sh", ".pre-commit-config.yaml"):
        text = re.sub(r"<<'USAGE'.*?\nUSAGE\n", "", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert [found[0] for found in tools.finditer(text)] == [], file


def test_the_hooks_for_users_are_not_those_for_changes_of_swapconf_itself() -> None:
    own = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in own["repos"]] == ["local"]  # it needs no network
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].startswith("swapconf check")


def test_pages_and_the_changelog_name_the_version_of_the_package() -> None:
    pages = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")]
    tags = {tag for page in pages for tag in re.findall(r"rev: v(\S+)", page.read_text(encoding="utf-8"))}
    assert tags == {swapconf.__version__}
    versions = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == swapconf.__version__
