"""One training process: its config is studied once, and the real layers get what the study decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapconf.config import overrides
from swapconf.config.config import Dialect
from swapconf.config.dialects import dialect_of
from swapconf.config.nodes import Document, from_plain, nowhere
from swapconf.models.own_layers import LayersRead
from swapconf.study.settings import Settings
from swapconf.study.study import Study, study_for_run
from swapconf.train import hook, modules_planner, pynative_hook
from swapconf.train import passed as passed_config
from swapconf.train.planner import LayerPlanner
from swapconf.train.pynative_hook import ModulesOrder, Passed
from swapconf.words.findings import SwapconfError


class Session:
    """``source``: the YAML that the run was started with, so that findings point into it, its comments count and the
    settings of its folder hold. ``settings``: these, where the run is not on the machine of the YAML. ``layers``: the
    file that takes the layers of a model that the catalog does not know. ``study``: of the config that was reviewed
    last."""

    def __init__(
        self, source: Document | None = None, settings: Settings | None = None, layers: Path | None = None
    ) -> None:
        self._layers = None if layers is None else LayersRead(layers)
        self._source = source or nowhere()
        self._settings = settings
        self._has_seen_modules = False
        self.study: Study | None = None

    def review(self, config: Mapping[str, Any]) -> None:
        """Study the whole config. Raises SwapconfError when it has errors."""
        study = self._studied(from_plain(dict(config), self._source))
        if study.is_refused:
            raise SwapconfError(study.findings)
        self.study = study

    def _studied(self, document: Document) -> Study:
        return study_for_run(document, os.environ, self._settings)

    def wants_lazy_inline(self) -> bool:
        study = self.study
        return study is not None and study.config.swap_on and study.config.dialect is not Dialect.PYNATIVE

    def planner(self, block: Mapping[str, Any]) -> LayerPlanner:
        """The planner for the layers of a block. ``block``: what mindformers passes to LayerSetting, under the names of
        a training YAML; it decides nothing where a config was reviewed. Raises SwapconfError where it differs."""
        if self.study is None or self.study.config.dialect is Dialect.PYNATIVE:
            return LayerPlanner(self._alone(block))
        study = self.study
        is_own = study.network is None or study.network.family is None
        if is_own:  # swapconf learns here how many layers there are
            study = self._studied(passed_config.with_layout(study.document, block))
        differences = passed_config.differences(study, block)
        if differences:
            raise SwapconfError(differences)
        return LayerPlanner(study, self._layers if is_own else None)

    def _alone(self, block: Mapping[str, Any]) -> Study:
        """Where no config was seen before, what mindformers passes is the config."""
        study = self._studied(from_plain(dict(block), nowhere("<model config>")))
        if study.is_refused:
            raise SwapconfError(study.findings)
        return study

    def modules(self, passed: Passed) -> ModulesOrder:
        """What a PyNative process does with the layers that it has. Raises SwapconfError for errors, and where
        mindformers passes otherwise than was studied."""
        study = self._study_of_modules(passed)
        if study.is_refused:
            raise SwapconfError(study.findings)
        if wrong := tuple(modules_planner.differences(study.config, passed, study.versions.mindformers)):
            raise SwapconfError(wrong)
        self.study, self._has_seen_modules = study, True
        return modules_planner.order(study.config, passed)

    def _study_of_modules(self, passed: Passed) -> Study:
        if not is_pynative(self._source):  # what is passed is the config
            return self._studied(modules_planner.as_document(passed, nowhere("<model config>")))
        study = self._studied(self._source)
        if study.config.model.num_layers is None:  # swapconf learns here how many there are
            return self._studied(modules_planner.with_layout(self._source, passed))
        return study

    def lines_without_seam(self, *, is_parallel: bool) -> tuple[str, ...]:
        """What to log of a PyNative config that mindformers has not applied when training begins."""
        if self._has_seen_modules or not is_pynative(self._source):
            return ()
        study = self._studied(self._source)
        return modules_planner.lines_without_seam(study.config, study.versions.mindformers, is_parallel=is_parallel)


def is_pynative(document: Document) -> bool:
    return dialect_of(document, legacy=False) is Dialect.PYNATIVE


def source_of_process() -> Document | None:
    """The YAML that this process was started with, as far as its command line names one that can be read."""
    try:
        return overrides.read(sys.argv[1:])
    except (SwapconfError, OSError, ValueError):  # the script itself says what is wrong with it
        return None


def install(source: Document | None = None, settings: Settings | None = None, layers: Path | None = None) -> None:
    """Take LayerSetting's place in this process, and be asked what PyNative training applies; ``source``, ``settings``
    and ``layers`` as for a Session."""
    session = Session(source, settings, layers)
    hook.install(session)
    pynative_hook.install(session, is_wanted=source is not None and is_pynative(source))
