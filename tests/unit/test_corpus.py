"""The training YAMLs that mindformers itself ships must pass; they are not part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapconf.errors import Severity
from swapconf.resolve.knowledge import Versions
from swapconf.study.study import study_file

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FILES = sorted(CORPUS.rglob("*.yaml"))


def test_the_corpus_is_there_where_it_has_to_be() -> None:
    if not FILES:
        assert "SWAPCONF_REQUIRE_CORPUS" not in os.environ, f"no YAML in {CORPUS}"
        pytest.skip("the corpus is not here")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_error_in_a_real_yaml(file: Path) -> None:
    study = study_file(file, Versions(), {})
    assert [str(finding) for finding in study.findings if finding.severity is Severity.ERROR] == []


def test_the_network_is_known_for_most_of_it() -> None:
    if not FILES:
        pytest.skip("the corpus is not here")
    studies = [study_file(file, Versions(), {}) for file in FILES]
    known = [study for study in studies if study.network is not None and study.network.family]
    assert len(known) >= 15
