"""ORDERS -> CHECKED: each file read once, studied, silenced where its comments say so; on all cores where it pays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swapconf.checking.find import is_training, is_whole, looks_like_training, may_be_training, yaml_files
from swapconf.checking.request import Checked, CheckRequest
from swapconf.config import base_config, overrides
from swapconf.config.file_kinds import Kind
from swapconf.config.nodes import Document
from swapconf.config.yaml_document import beginning, read_text
from swapconf.study.settings import Settings, settings_in
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import installed
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

_WORTH_A_POOL = 48  # files; below, starting the processes takes longer than checking
_AT_ONCE = 16  # files per message to a process


def orders(
    paths: Iterable[str],
    environment: Mapping[str, str],
    mindspore: str | None,
    mindformers: str | None,
    *,
    named: bool = True,
    changes: Sequence[str] = (),
) -> tuple[list[CheckRequest], list[Finding]]:
    """One order per file, folders searched, and what is wrong with the settings.

    ``mindspore``, ``mindformers``: versions given on the command line, which win over the settings. ``named``: files
    that are given, not found in a folder, are checked whatever they hold. ``changes``: overrides for all of them.
    """
    found: list[CheckRequest] = []
    chosen: dict[str, tuple[Settings, tuple[Finding, ...]]] = {}
    here = installed()
    for path in paths:
        is_folder = os.path.isdir(path)
        for file in yaml_files(path) if is_folder else (path,):
            folder = os.path.dirname(os.path.abspath(file))
            if folder not in chosen:
                chosen[folder] = settings_in(folder)
            settled = chosen[folder][0]
            found.append(
                CheckRequest(
                    file=file,
                    named=named and not is_folder,
                    settings=settled,
                    environment=environment,
                    versions=settled.versions(mindspore, mindformers, here),
                    changes=tuple(changes),
                )
            )
    wrong = dict.fromkeys(finding for _, findings in chosen.values() for finding in findings)
    found.sort(key=lambda order: order.named)  # a file that is found and named counts as named
    unique = {os.path.abspath(order.file): order for order in found}
    return sorted(unique.values(), key=lambda order: order.file), list(wrong)


def check_all(given: Sequence[CheckRequest], jobs: int | None = None) -> Iterator[Checked]:
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
    import signal  # only where there are several processes

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check(order: CheckRequest) -> Checked:
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


def check_text(order: CheckRequest, text: str) -> Checked:
    """The same for a text at hand. Raises SwapconfError when there is nothing to read in it."""
    document = base_config.of_text(text, order.file)
    if not order.named and not is_training(document):
        return Checked(file=order.file, training=False)
    studied = study(order, document)
    return Checked(
        file=order.file,
        findings=studied.findings,
        is_part=not order.named and studied.kind is Kind.TRAINING and not is_whole(document),
        included=tuple(one.file for one in studied.document.included),
    )


def whole(checked: Iterable[Checked]) -> list[Checked]:
    """The training YAMLs; without parts of others of them, which tell what is wrong there, with all that counts."""
    training = [one for one in checked if one.training]
    included = {os.path.realpath(file) for one in training for file in one.included}
    return [one for one in training if not (one.is_part and os.path.realpath(one.file) in included)]


def study(order: CheckRequest, document: Document) -> Study:
    """What a document means under the settings of an order, after its overrides. Raises ValueError for an override
    that cannot be made."""
    changed = overrides.changed(document, order.changes)
    return study_document(changed, order.versions, order.environment, order.settings)


def empty_folders(paths: Iterable[str], checked: Sequence[Checked]) -> Iterator[Finding]:
    """A finding for each folder in which no training YAML is, as after a typo in a CI job."""
    training = [os.path.abspath(one.file) for one in checked if one.training]
    for path in paths:
        top = os.path.join(os.path.abspath(path), "")
        if os.path.isdir(path) and not any(file.startswith(top) for file in training):
            yield Finding(
                origin=Origin(file=path),
                rule="no-training-yaml",
                severity=Severity.WARNING,
                message=phrase("there is no training YAML in this folder"),
                hint=phrase("name another folder, or the files themselves"),
            )
