"""ORDERS -> CHECKED: each file read once, studied, silenced where its comments say so; on all cores where it pays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from swapconf import catalog, pipeline
from swapconf.checking import ignores, settings
from swapconf.checking.find import is_training, looks_like_training, may_be_training, yaml_files
from swapconf.checking.order import Checked, Order, Settings
from swapconf.checking.pages import pages
from swapconf.errors import Finding, Origin, Severity, SwapconfError, in_order
from swapconf.formats.nodes import Document
from swapconf.formats.yaml_document import beginning, parse, read_text
from swapconf.phrases import phrase
from swapconf.resolve.knowledge import Versions, installed

_WORTH_A_POOL = 48  # files; below, starting the processes takes longer than checking
_AT_ONCE = 16  # files per message to a process


def orders(paths: Iterable[str], environment: Mapping[str, str], mindspore: str | None,
           mindformers: str | None, *, named: bool = True) -> tuple[list[Order], list[Finding]]:
    """One order per file, folders searched, and what is wrong with the settings.

    ``mindspore``, ``mindformers``: versions given on the command line, which win over the settings. ``named``: files
    that are given, not found in a folder, are checked whatever they hold.
    """
    found: list[Order] = []
    chosen: dict[str, tuple[Settings, tuple[Finding, ...]]] = {}
    here = installed()
    for path in paths:
        is_folder = os.path.isdir(path)
        for file in yaml_files(path) if is_folder else (path,):
            folder = os.path.dirname(os.path.abspath(file))
            if folder not in chosen:
                chosen[folder] = _settings(folder)
            settled = chosen[folder][0]
            versions = Versions.among(here, mindspore or settled.mindspore, mindformers or settled.mindformers)
            found.append(Order(file=file, named=named and not is_folder, settings=settled, versions=versions,
                               environment=environment))
    wrong = dict.fromkeys(finding for _, findings in chosen.values() for finding in findings)
    found.sort(key=lambda order: order.named)  # a file that is found and named counts as named
    unique = {os.path.abspath(order.file): order for order in found}
    return sorted(unique.values(), key=lambda order: order.file), list(wrong)


def families_of(file: str) -> Mapping[str, str]:
    """The model classes that the settings of a file's folder tell, by the family whose layers they have."""
    return _settings(os.path.dirname(os.path.abspath(file)))[0].families


def _settings(folder: str) -> tuple[Settings, tuple[Finding, ...]]:
    file = settings.find(Path(folder))
    if file is None:
        return Settings(), ()
    return settings.read(file, pages(), catalog.families())


def check_all(given: Sequence[Order], jobs: int | None = None) -> Iterator[Checked]:
    """The files in the order given. ``jobs``: processes; None: as many as this process may use cores."""
    jobs = jobs or len(os.sched_getaffinity(0))
    if jobs == 1 or len(given) < _WORTH_A_POOL:
        yield from map(check, given)
        return
    from concurrent.futures import ProcessPoolExecutor  # one file needs none of it

    # an interrupt reaches the whole group; only this process is to answer it
    with ProcessPoolExecutor(max_workers=jobs, initializer=_ignore_interrupts) as pool:
        yield from pool.map(check, given, chunksize=_AT_ONCE)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check(order: Order) -> Checked:
    """One file. A file of a folder that is no training YAML has no findings."""
    text = ""
    try:
        text = read_text(order.file)
        if not order.named and not may_be_training(text):
            return Checked(file=order.file, training=False)
        return check_text(order, text)
    except SwapconfError as error:
        if not order.named and not _concerns_us(order.file, text):
            return Checked(file=order.file, training=False)
        return Checked(file=order.file, unreadable=True, findings=error.findings)


def _concerns_us(file: str, text: str) -> bool:
    """Whether a file that cannot be read seems to be for training. ``text``: as far as it was read."""
    try:
        return looks_like_training(text or beginning(file))
    except OSError:
        return True  # nobody knows


def check_text(order: Order, text: str) -> Checked:
    """The same for a text at hand. Raises SwapconfError when there is nothing to read in it."""
    document = parse(text, order.file)
    if not order.named and not is_training(document):
        return Checked(file=order.file, training=False)
    return Checked(file=order.file, findings=told(order, text, study(order, document)))


def study(order: Order, document: Document) -> pipeline.Study:
    """What a document means under the settings of an order."""
    return pipeline.study_document(document, order.versions, order.environment, order.settings.families)


def examine(document: Document, environment: Mapping[str, str], mindspore: str | None = None,
            mindformers: str | None = None) -> tuple[pipeline.Study, Versions]:
    """What a document means under the settings that hold for its file, for a command that goes on with it; what is
    wrong is told as `check` tells it. Raises SwapconfError when the file has gone."""
    (order,), wrong = orders((document.file,), environment, mindspore, mindformers)
    studied = study(order, document)
    findings = told(order, read_text(document.file), studied)
    return replace(studied, findings=in_order([*wrong, *findings])), order.versions


def told(order: Order, text: str, studied: pipeline.Study) -> tuple[Finding, ...]:
    """The findings of a study that neither a comment nor a setting silences, in order."""
    found = ignores.apply(studied.findings, ignores.read(text, order.file), pages())
    return in_order(_with_severities(found, order.settings))


def _with_severities(findings: Iterable[Finding], chosen: Settings) -> Iterator[Finding]:
    """The findings as the settings weigh them; those of a rule that is off are left out."""
    for finding in findings:
        severity = chosen.severity.get(finding.rule, finding.severity)
        if severity is not None:
            yield replace(finding, severity=severity)


def empty_folders(paths: Iterable[str], checked: Sequence[Checked]) -> Iterator[Finding]:
    """A finding for each folder in which no training YAML is, as after a typo in a CI job."""
    training = [os.path.abspath(one.file) for one in checked if one.training]
    for path in paths:
        top = os.path.join(os.path.abspath(path), "")
        if os.path.isdir(path) and not any(file.startswith(top) for file in training):
            yield Finding(origin=Origin(file=path), rule="no-training-yaml", severity=Severity.WARNING,
                          message=phrase("there is no training YAML in this folder"),
                          hint=phrase("name another folder, or the files themselves"))
