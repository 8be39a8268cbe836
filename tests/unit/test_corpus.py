"""The training YAMLs that mindformers itself ships must pass; SWAPCONF_CORPUS names the folder that they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from tests.helpers import CORPUS

FILES = sorted(CORPUS.rglob("*.yaml")) if CORPUS else []
pytestmark = pytest.mark.skipif(CORPUS is None, reason="SWAPCONF_CORPUS is not set")


def test_the_folder_that_is_named_has_yamls() -> None:
    assert FILES, f"no YAML in {CORPUS}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_no_error_in_a_real_yaml(file: Path) -> None:
    study = study_file(file, Versions(), {})
    assert [str(finding) for finding in study.findings if finding.severity is Severity.ERROR] == []


def test_the_network_is_known_for_most_of_it() -> None:
    studies = [study_file(file, Versions(), {}) for file in FILES]
    known = [study for study in studies if study.network is not None and study.network.family]
    assert len(known) >= 15
