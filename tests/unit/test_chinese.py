"""Everything a person reads is a phrase: what the commands print in Chinese holds no English sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from tests.helpers import ROOT, TRACES

EXAMPLES = sorted(str(path) for path in (ROOT / "tests" / "examples").glob("*.yaml"))
SHIPPED = sorted(str(path) for path in (ROOT / "configs").glob("*/*.yaml"))
PLAIN, SWAP, RECOMPUTE = (str(TRACES / f"llama_l2_{name}") for name in ("none", "layerswap_n1", "recompute"))
EXAMPLE = str(ROOT / "configs" / "small" / "example1_default_swap.yaml")
ASKED = ("--config", EXAMPLE, "--set", "model.model_config.num_layers=2", "--set", "swap_config.default_prefetch=5")

COMMANDS = [
    ["check", *EXAMPLES, str(ROOT / "docs" / "mistakes.yaml"), "nowhere.yaml"],
    ["check", str(TRACES)],
    *(["explain", file] for file in [*EXAMPLES, *SHIPPED]),
    ["rules", "no-such-rule"],
    ["whatif", PLAIN, *ASKED, "--safe", "--sweep", "backward_prefetch=1..30", "--hardware", "ascend_910b2"],
    ["whatif", SWAP, *ASKED],
    ["memory", PLAIN, SWAP],
    ["fragmentation", SWAP],
    ["timeline", SWAP, "--hardware", "ascend_910b2"],
    ["compare", PLAIN, RECOMPUTE, "--hardware", "ascend_910b2"],
    ["verify", str(TRACES), "--config", EXAMPLE],
    ["dryrun"],
]
# what is quoted, spelled as in a file, or written by others
_FOREIGN = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|^ +(Set|Skip) .*|^(Usage|Try) .*|mapping values are not allowed.*")
_ENGLISH = re.compile(r"(?<![\w./`'\\-])[A-Za-z]{2,},? [a-z]{2,},? [a-z]{2,}")


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(Path(word).name for word in words[:2]))
def test_no_english_sentence_is_left(words: list[str]) -> None:
    done = CliRunner().invoke(main, ["--lang", "zh", *words])
    assert isinstance(done.exception, SystemExit | None)
    lines = (done.stdout + done.stderr).splitlines()
    assert any("\u4e00" <= char <= "\u9fff" for line in lines for char in line)
    assert [line for line in lines if _ENGLISH.search(_FOREIGN.sub("", line))] == []


def test_the_search_finds_a_sentence() -> None:
    assert _ENGLISH.search(_FOREIGN.sub("", "a.yaml:1:1  (file): error: there is no such file; check the path"))


TELLING = {
    "Finding",
    "finding",
    "_finding",
    "SwapconfError",
    "DryRunError",
    "CannotRewrite",
    "Mismatch",
    "say",
    "secho",
    "print_rows",
    "UsageError",
    "ClickException",
    "BadParameter",
}
COMPARED = "stops_with"  # with what a framework says, and never told
SENTENCE = re.compile(r"[a-z]{2} (?!red\b)[a-z]")  # "bold red" is a style


def test_what_is_told_is_a_phrase() -> None:
    """In the code, too: a message that no test triggers must not be English only."""
    bare = []
    for file in sorted((ROOT / "swapconf").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node) in TELLING:
                bare += [
                    f"{file.name}:{text.lineno}: {ast.unparse(text)}"
                    for given in (*node.args, *(one.value for one in node.keywords if one.arg != COMPARED))
                    for text in _sentences(given)
                ]
    assert bare == []


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _sentences(node: ast.AST) -> Iterator[ast.expr]:
    """The texts of two words and more in an expression that are part of no phrase."""
    if isinstance(node, ast.Call) and _name(node) in ("phrase", "plural", "mark"):
        return
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if any(map(SENTENCE.search, texts)):
            yield node
            return
    for child in ast.iter_child_nodes(node):
        yield from _sentences(child)
