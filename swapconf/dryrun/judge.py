"""FINISHED PROCESS + LOG -> FAULT: what went wrong in a rank, with the framework's own words."""

from __future__ import annotations

import re
import signal

from swapconf.dryrun.launch import Ending, Finished
from swapconf.dryrun.outcome import Fault, RankOutcome
from swapconf.words.phrases import phrase

TAIL_BYTES = 200_000
_SHOWN_LINES = 6
_FULL_BYTES = 16 << 10
_NO_SPACE = re.compile(r"No space left on device|Errno 28|No free disk")
_NOT_INSTALLED = re.compile(r"^(?:ModuleNotFoundError|ImportError): ")
_ERROR = re.compile(r"^\s*(?:[A-Za-z_.]+(?:Error|Exception|Interrupt)|E\s{2,})\b.*")
_NOISE = re.compile(
    r"^\s*(?:$|-{5,}|\[(?:WARNING|INFO|ERROR|CRITICAL|MS_ALLOC_CONF)\]|File \"|- C\+\+ Call Stack|"
    r"\d{4}-\d\d-\d\d)"
)

# where in the YAML a mistake probably stands, by what MindSpore or mindformers says of it
_PLACES = (
    (re.compile(r"must contain the key \W*type"), ("model.model_config",)),
    (re.compile(r"dataset|MindDataset|mindrecord|column", re.I), ("train_dataset", "train_dataset_task")),
    (re.compile(r"seq_?len|sequence|input_ids|position_ids", re.I), ("model.model_config.seq_length",)),
    (
        re.compile(r"model_parallel|tensor_model_parallel|num_heads|head", re.I),
        ("parallel_config.model_parallel", "model.model_config.num_heads"),
    ),
    (re.compile(r"pipeline|stage|offset|micro_batch", re.I), ("parallel_config.pipeline_stage",)),
    (re.compile(r"expert|moe", re.I), ("parallel_config.expert_parallel", "model.model_config")),
    (
        re.compile(r"device_num|rank|world|strategy|shard|data_parallel", re.I),
        ("parallel_config.data_parallel", "parallel_config"),
    ),
)


def fault(finished: Finished, tail: str, free_bytes: int) -> Fault | None:
    """What went wrong, or None. ``tail``: the end of the log. ``free_bytes``: what the disk of its folder has left; on
    a full one the log has no room for the message."""
    found = _fault(finished, tail)
    if found is not None and (free_bytes < _FULL_BYTES or _NO_SPACE.search(tail)):
        told = [line.strip() for line in tail.splitlines() if _NO_SPACE.search(line)]
        return Fault(RankOutcome.NO_SPACE, told[-1] if told else phrase("{size} bytes are left", size=free_bytes))
    return found


def _fault(finished: Finished, tail: str) -> Fault | None:
    if finished.ending is Ending.TIMED_OUT:
        return Fault(
            RankOutcome.TIMED_OUT,
            phrase(
                "ended after {seconds:.0f} s; the last lines were: {lines}", seconds=finished.seconds, lines=_last(tail)
            ),
        )
    if finished.ending is Ending.SIGNALLED:
        name = signal.Signals(finished.code).name if finished.code in set(signal.Signals) else str(finished.code)
        if finished.code in (signal.SIGKILL, signal.SIGTERM):
            return Fault(RankOutcome.KILLED, name)
        return Fault(
            RankOutcome.CRASHED,
            phrase(
                "{signal} in MindSpore, often a backward_prefetch that is too large; the last lines were: {lines}",
                signal=name,
                lines=_last(tail),
            ),
        )
    if finished.ending is Ending.EXITED and finished.code != 0:
        words = framework_error(tail)
        if _NOT_INSTALLED.search(words):
            return Fault(RankOutcome.NOT_INSTALLED, words)
        return Fault(RankOutcome.STOPPED, words, _places(words))
    return None


def framework_error(tail: str) -> str:
    """The framework's message: the last line that names an exception, with the line that explains it."""
    lines = tail.splitlines()
    errors = [index for index, line in enumerate(lines) if _ERROR.match(line)]
    if not errors:
        return _last(tail)
    start = errors[-1]
    text = [lines[start].strip()]
    for line in lines[start + 1 : start + 4]:
        if text[-1].endswith(":") and not line.strip():  # what it announces comes behind an empty line
            continue
        if _NOISE.match(line):
            break
        text.append(line.strip())
    return " ".join(text)[:600]


def _places(words: str) -> tuple[str, ...]:
    return next((paths for pattern, paths in _PLACES if pattern.search(words)), ())


def _last(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip() and not _NOISE.match(line)]
    return " | ".join(lines[-_SHOWN_LINES:])[-800:] or phrase("(nothing)")
