"""One YAML through all commands: each tells the same findings, honours the same settings, refuses or goes on alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.config.yaml_document import parse
from swapconf.study.pages import pages
from swapconf.train.session import Session
from swapconf.words.findings import SwapconfError
from tests.helpers import ROOT

TRACE = ROOT / "tests" / "traces" / "llama_l2_none"
LINE = re.compile(r"^(?:.*?)train\.yaml:(\d+):(\d+)  .*\[([\w-]+)\]$")
SWAP = r"""
recompute_config:
  recompute: False
  select_recompute: {'feed_forward': [1]}
swap_config:
  swap: True
  op_swap:
    # swapconf: ignore[op-unescaped-dot] this name stands here for a test
    - {op_name: 'attention.wq', backward_prefetch: 5, layers: [0]}
    - {op_name: 'ffn_norm', backward_prefetch: 5, layers: True}
    - {op_name: 'feed_forward', backward_prefetch: 5, layers: [1]}
    - {op_name: 'attention\.wo', backward_prefetch: 5, layers: [1]}
  default_prefetch: 3
"""
SILENT = 'severity = {"default-prefetch-ignored" = "off"}\n'
REFUSING = 'severity = {"default-prefetch-ignored" = "off", "R1-recompute-wins" = "error"}\n'
Found = set[tuple[int, int, str]]


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """A YAML of the traces of this folder, with one finding that a comment silences, and one that a setting does."""
    head, _, _ = (ROOT / "tests" / "traces" / "llama.yaml").read_text(encoding="utf-8").partition("recompute_config:")
    file = tmp_path / "train.yaml"
    file.write_text(head + SWAP.lstrip(), encoding="utf-8")
    (tmp_path / ".swapconf.toml").write_text(SILENT, encoding="utf-8")
    (tmp_path / "script.py").write_text("from pathlib import Path\nPath(__file__).with_name('started').touch()\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker_0.log").write_text("nothing\n")
    return file


def told(output: str) -> Found:
    """Places and rules of the findings about the YAML, apart from those that only one command can make."""
    lines = filter(None, map(LINE.match, output.splitlines()))
    return {(int(line[1]), int(line[2]), line[3]) for line in lines if line[3] in pages()}


def invoked(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"SWAPCONF_LANG": "en"})


def checked(train: Path) -> Found:
    return told(invoked("check", train).output)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], bool]:
    """Whether anything was started: dry runs and the hook into mindformers are left out here."""
    begun: list[object] = []

    def note(*given: Any, **_: Any) -> list[Any]:
        begun.append(given)
        return []

    def stop(*given: Any, **_: Any) -> None:
        begun.append(given)
        raise SystemExit(0)

    monkeypatch.setattr("swapconf.cli.dryrun._run", note)
    monkeypatch.setattr("swapconf.cli.compare._run", stop)
    monkeypatch.setattr("swapconf.dryrun.fold.folded.dry_run", stop)
    monkeypatch.setattr("swapconf.dryrun.environment.prepare", lambda *_: None)
    monkeypatch.setattr("swapconf.train.hook.install", lambda *_: None)
    return lambda: bool(begun) or (tmp_path / "started").exists()


# words of the command line, whether it starts or predicts something with the YAML
COMMANDS = {
    "explain": ("explain {train}", False),
    "run": ("run {folder}/script.py --config {train}", True),
    "dryrun": ("dryrun {train}", True),
    "compare": ("compare {train}", True),
    "compare --from": ("compare {train} --from {trace}", False),
    "whatif": ("whatif {trace} --config {train}", False),
    "verify": ("verify {folder}/logs --config {train} --ranks 0", False),
    "migrate": ("migrate {train} --to pynative --diff", False),
    "fragmentation": ("fragmentation {trace} --confirm {train}", True),
}


def run(name: str, train: Path) -> Result:
    line, _ = COMMANDS[name]
    return invoked(*(word.format(train=train, folder=train.parent, trace=TRACE) for word in line.split()))


def test_the_comment_and_the_setting_silence_something(train: Path) -> None:
    rules = {rule for _, _, rule in checked(train)}
    assert rules == {"R1-recompute-wins", "R2-recomputed-consumer", "R3-list-meaning"}
    (train.parent / ".swapconf.toml").unlink()
    train.write_text(train.read_text().replace("# swapconf: ignore", "# ignore"))
    assert {rule for _, _, rule in checked(train)} == {*rules, "default-prefetch-ignored", "op-unescaped-dot"}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_check_says_every_command_says(name: str, train: Path, started: Callable[[], bool]) -> None:
    done = run(name, train)
    assert told(done.output) == checked(train)
    assert started() == COMMANDS[name][1], done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_what_check_refuses_no_command_starts(name: str, train: Path, started: Callable[[], bool]) -> None:
    """`explain`, `verify` and `migrate` show and rewrite what is wrong; nothing is started or predicted with it."""
    (train.parent / ".swapconf.toml").write_text(REFUSING, encoding="utf-8")
    assert invoked("check", train).exit_code == 1
    done = run(name, train)
    assert told(done.output) == checked(train)
    assert not started()
    assert done.exit_code == 1
    if name == "whatif":
        assert not done.stdout
    if name == "compare --from":
        assert "has errors" in done.output


def settings_of(train: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(train.read_text(encoding="utf-8"))
    return found


def test_the_training_process_says_the_same(train: Path) -> None:
    session = Session(parse(train.read_text(encoding="utf-8"), str(train)))
    session.review(settings_of(train))
    assert session.study is not None
    found = {(finding.origin.line, finding.origin.column, finding.rule) for finding in session.study.findings}
    assert found == checked(train)


def test_the_training_process_refuses_the_same(train: Path) -> None:
    (train.parent / ".swapconf.toml").write_text(REFUSING, encoding="utf-8")
    session = Session(parse(train.read_text(encoding="utf-8"), str(train)))
    with pytest.raises(SwapconfError) as error:
        session.review(settings_of(train))
    assert {(found.origin.line, found.origin.column, found.rule) for found in error.value.findings} == checked(train)


def test_the_child_of_a_dry_run_says_the_same(
    train: Path, tmp_path: Path, started: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works elsewhere, on a copy without comments, and is told what the copy was made of."""
    from swapconf.study import handed_over as source
    from swapconf.study.settings import settings_of as settings_for

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.yaml").write_text(yaml.safe_dump(settings_of(train)), encoding="utf-8")
    (elsewhere / ".swapconf.toml").write_text("", encoding="utf-8")
    source.write(
        elsewhere / source.FILE, parse(train.read_text(encoding="utf-8"), str(train)), settings_for(str(train))[0]
    )
    monkeypatch.setenv(source.VARIABLE, str(elsewhere / source.FILE))
    done = invoked("run", train.parent / "script.py", "--config", elsewhere / "config.yaml")
    assert told(done.output) == checked(train)
    assert started()


def test_a_source_that_is_damaged_is_none(train: Path, tmp_path: Path) -> None:
    from swapconf.study import handed_over as source

    made = parse("swap_config: {swap: True}\n", "config.yaml")
    for text in ("", "[]", "{}", json.dumps({"text": "a: [", "file": "x"})):
        (tmp_path / source.FILE).write_text(text)
        assert source.read(tmp_path / source.FILE, made)[0] is made


def test_set_is_checked_and_explained(train: Path) -> None:
    change = "swap_config.swap=False"
    assert invoked("check", train, "--set", change).exit_code == 0
    assert (
        told(invoked("explain", train, "--set", change).output)
        == told(invoked("check", train, "--set", change).output)
        != checked(train)
    )
    assert invoked("check", train, "--set", "nowhere.swap=False").exit_code == 2
    assert invoked("check", train, "--fix", "--set", change).exit_code == 2
