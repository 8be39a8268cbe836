"""Every YAML in tests/examples names, in its first lines, exactly the findings that it gives.

    # expect: 7:17 op-unescaped-dot
    # expect: parts/model.yaml:6:47 layer-out-of-range
    # mindformers: 2.1.0

A file without such a line gives none, and is read by the versions that most was measured with. Every YAML in configs/
is read, resolved and compacted.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapconf.decide.compact import compact
from swapconf.decide.expand import expand
from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions
from swapconf.words.findings import SwapconfError, has_errors
from tests.helpers import ROOT

EXAMPLES = sorted((ROOT / "tests/examples").glob("*.yaml"))
NATIVE = sorted((ROOT / "configs" / "pynative").glob("*.yaml"))  # the catalog has no operators of these
CONFIGS = sorted(set((ROOT / "configs").rglob("*.yaml")) - set(NATIVE))


def findings(file: Path) -> list[str]:
    given = dict(re.findall(r"^# (mindspore|mindformers): (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    try:
        found = study_file(file, Versions(**given), {}).findings
    except SwapconfError as error:
        found = error.findings
    return sorted(
        f"{_named(finding.origin.file, file)}{finding.origin.line}:{finding.origin.column} {finding.rule}"
        for finding in found
    )


def _named(found: str, file: Path) -> str:
    return "" if Path(found) == file else f"{Path(found).relative_to(file.parent).as_posix()}:"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example(file: Path) -> None:
    expected = re.findall(r"^# expect: (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert findings(file) == sorted(expected)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
    assert len(CONFIGS) >= 10


@pytest.mark.parametrize("file", NATIVE, ids=lambda file: file.stem)
def test_nothing_is_wrong_with_a_pynative_config(file: Path) -> None:
    assert study_file(file, Versions(mindspore="2.10.0", mindformers="2.0.0"), {}).findings == ()


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_config_is_sound_and_survives_compacting(file: Path) -> None:
    study = study_file(file, Versions(), {})
    assert not has_errors(study.findings)
    assert study.network is not None
    assert study.network.family
    assert study.strategy is not None
    again = compact(study.strategy, study.config, Versions())
    assert expand(again, study.network, Versions()).actions() == study.strategy.actions()
