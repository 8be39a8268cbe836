"""Nothing that swapconf reads is run: no unpickling, no evaluating, no shell, no YAML loader that makes objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import swapconf

SOURCES = sorted(Path(swapconf.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "code", "codeop", "commands", "imp"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    ("os", "system"),
    ("os", "popen"),
    ("yaml", "load"),
    ("yaml", "load_all"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("yaml", "Loader"),
    ("yaml", "UnsafeLoader"),
    ("yaml", "FullLoader"),
    ("joblib", "load"),
    ("joblib", "dump"),
    ("joblib", "Memory"),
    ("np", "load"),
    ("numpy", "load"),
}


def dangers(source: str) -> list[str]:
    return [f"{getattr(node, 'lineno', 0)}: {what}" for node in ast.walk(ast.parse(source)) for what in of_node(node)]


def of_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names if name.name.partition(".")[0] in MODULES)
        case ast.ImportFrom(module=str(module), names=names):
            if module.partition(".")[0] in MODULES:
                yield module
            yield from (f"{module}.{name.name}" for name in names if (module, name.name) in ATTRIBUTES)
        case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
            yield name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in ATTRIBUTES:
            yield f"{module}.{name}"
        case ast.keyword(arg="shell" | "allow_pickle", value=ast.Constant(value=True)):
            yield str(node.arg)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_nothing_that_is_read_is_run(path: Path) -> None:
    assert dangers(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import dill as d",
        "eval('1')",
        "exec(x)",
        "os.system('ls')",
        "yaml.load(text, Loader=yaml.Loader)",
        "from yaml import load",
        "subprocess.run('ls', shell=True)",
        "np.load(p, allow_pickle=True)",
        "joblib.load(p)",
    ],
)
def test_the_test_sees_them(source: str) -> None:
    assert dangers(source)


def test_there_are_sources() -> None:
    assert len(SOURCES) > 150
