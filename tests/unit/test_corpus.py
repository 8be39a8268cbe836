"""The training YAMLs that mindformers itself ships must pass; SWAPCONF_CORPUS names the folder that they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapconf.config import base_config
from swapconf.config.overrides import of_file
from swapconf.layout.layout import Layout, NoLayout, layout_of
from swapconf.layout.legal import Wishes, layouts
from swapconf.layout.written import write
from swapconf.study.study import Study, study_file, study_for_check
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


def test_every_layout_can_be_written_into_a_real_yaml() -> None:
    studies = {file: study_for_check(of_file(str(file), ()), {}) for file in FILES}
    shared = {file: own for file, study in studies.items() if (own := _layout(study)) is not None}
    assert len(shared) >= 15
    for file, own in shared.items():
        for layout in layouts(own, own.cards, Wishes())[::5]:
            text = write(file.read_text(encoding="utf-8"), studies[file], layout)
            assert _layout(study_for_check(base_config.of_text(text, str(file)), {})) == layout, file.name


def _layout(study: Study) -> Layout | None:
    try:
        return layout_of(study)
    except NoLayout:
        return None


def test_the_network_is_known_for_most_of_it() -> None:
    studies = [study_file(file, Versions(), {}) for file in FILES]
    known = [study for study in studies if study.network is not None and study.network.family]
    assert len(known) >= 15
