"""The house rules that a tool can check."""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from radon.complexity import cc_rank, cc_visit

from tests.helpers import ROOT

PACKAGE = ROOT / "swapconf"
WORST_GRADE = "C"  # radon's; up to 20 ways through a function
MOST_STATEMENTS = 232  # of a module
# modules that mean the very object, or for which to hash what it holds takes too long; each says why
BY_IDENTITY = {"own.py", "spans.py", "yaml_document.py", "costing.py", "with_workspace.py"}
MOST_TRACES_BYTES = 20_000_000
SAYS_NOTHING = {"found", "known", "mine", "one"}
# of what-if: files and folders whose names were not gone through yet
NOT_READ_YET = {
    "lift",
    "passes",
    "pynative",
    "asked_rank.py",
    "evaluate.py",
    "placed_calls.py",
    "step_time.py",
    "transplant.py",
}
FOLDERS = {".ci", "configs", "docs", "scripts", "swapconf", "tests"}  # of the top level; what a run left is none


def test_no_module_is_too_long() -> None:
    assert not {
        name: count
        for path in PACKAGE.rglob("*.py")
        if (count := statements(path)) > MOST_STATEMENTS
        for name in [str(path.relative_to(ROOT))]
    }


def statements(path: Path) -> int:
    """Logical lines: they are the same however the formatter breaks them."""
    with tokenize.open(path) as text:
        return sum(token.type == tokenize.NEWLINE for token in tokenize.generate_tokens(text.readline))


def test_recorded_traces_are_no_more_than_a_clone_may_take() -> None:
    """What goes is made again by `scripts/evidence/recorded.py`; CONTRIBUTING.md says which stay."""
    files = (path for path in (ROOT / "tests" / "traces").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) <= MOST_TRACES_BYTES


def test_no_name_of_a_class_of_what_if_stands_for_two() -> None:
    classes = Counter(
        node.name
        for path in (PACKAGE / "whatif").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and "pynative" not in path.parts
    )
    assert not [name for name, count in classes.items() if count > 1]


def test_what_if_calls_nothing_by_a_word_that_says_nothing() -> None:
    """A variable, parameter, field or function says what it holds, not that it was found."""
    assert not [
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for path, node in _nodes_of_what_if()
        if (name := _name(node)).strip("_") in SAYS_NOTHING
    ]


def test_no_number_of_what_if_stands_for_nothing_without_a_name() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path, node in _nodes_of_what_if()
        if isinstance(node, ast.Compare) and any(map(_is_sentinel, (node.left, *node.comparators)))
    ]


def _nodes_of_what_if() -> Iterator[tuple[Path, ast.expr | ast.stmt | ast.arg]]:
    for path in (PACKAGE / "whatif").rglob("*.py"):
        if path.name not in NOT_READ_YET and NOT_READ_YET.isdisjoint(path.parts):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.expr, ast.stmt, ast.arg)):
                    yield path, node


def _name(node: ast.AST) -> str:
    """What a node gives a name to, "" for nothing."""
    match node:
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return ""


def _is_sentinel(value: ast.expr) -> bool:
    """A number below zero, or one that is only as large as can be."""
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) | ast.BinOp(op=ast.LShift()):
            return True
        case ast.List(elts=values) | ast.Tuple(elts=values):
            return any(map(_is_sentinel, values))
    return False


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if (text := path.read_text().strip()) and not text.startswith(('"""', 'r"""'))
    ]
    assert not silent


@pytest.mark.parametrize("folder", ["swapconf", "scripts", "tests"])
def test_every_function_is_simple_enough_to_be_read_once(folder: str) -> None:
    above = {
        f"{path.relative_to(ROOT)}: {block.fullname} has {block.complexity}"
        for path in (ROOT / folder).rglob("*.py")
        for block in cc_visit(path.read_text(encoding="utf-8"))
        if cc_rank(block.complexity) > WORST_GRADE
    }
    assert not above


def test_nothing_is_remembered_by_the_address_of_an_object() -> None:
    guilty = {path.name for path in PACKAGE.rglob("*.py") if re.search(r"\bid\(", path.read_text(encoding="utf-8"))}
    assert guilty == BY_IDENTITY


def test_nothing_in_the_project_names_a_machine() -> None:
    suspicious = ("/work/", "/home/", "/root/", "/tmp/lab")
    folders = ("swapconf", "scripts", "configs", "docs", "tests")
    suffixes = (".py", ".sh", ".md", ".yaml", ".json", ".toml")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]
    guilty = [
        (path.name, word)
        for path in [*files, ROOT / "README.md", ROOT / "pyproject.toml"]
        if path.exists() and path != Path(__file__)
        for word in suspicious
        if word in path.read_text(encoding="utf-8")
    ]
    assert not guilty


def test_no_other_folders_stand_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    assert {name.partition("/")[0] for name in listed.stdout.splitlines() if "/" in name} == FOLDERS
