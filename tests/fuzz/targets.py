"""BYTES -> NOTHING: everything that reads what others wrote, each as a function that a fuzzer calls.

A target returns, or it found a fault. What is refused must be refused as a user would want to see it: a `SwapconfError`
whose findings name the file and say what to do, or a ValueError where the command line prints its text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from swapconf.config import overrides
from swapconf.config.nodes import from_plain, nowhere
from swapconf.config.yaml_document import MAX_BYTES, parse, read_text
from swapconf.config.yaml_text import format_config
from swapconf.decide.log_lines import lines as strategy_lines
from swapconf.dryrun import DryRunError, child, judge, memory_log, rank_order, report_cache
from swapconf.dryrun.launch import Ending, Finished
from swapconf.dryrun.report_record import as_record
from swapconf.dryrun.shim import cache as shim_cache
from swapconf.files import log_folder
from swapconf.memory import view
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.postmortem import run_log
from swapconf.postmortem.answer import answer
from swapconf.profile import (
    kernel_details,
    leak_dump,
    measured_step,
    memory_record,
    operator_memory,
    static_memory,
    step_trace,
    trace_view,
)
from swapconf.report import ending_text, explanation, oom_text
from swapconf.report import findings_text as report
from swapconf.study.study import study_document
from swapconf.timing import calibration, costing, hardware, program, timeline
from swapconf.trace import execute_order, memory_block, run_record, task_table, trace_folder, tracker_graph
from swapconf.upstream.facts import Versions
from swapconf.verify import predicted_peaks, worker_logs
from swapconf.words import phrases, units
from swapconf.words.findings import Finding, SwapconfError
from tests.fuzz.mutations import grown
from tests.helpers import scratch

Target = Callable[[bytes], None]
SEPARATOR = b"=== "  # before the name of each file of a target that reads several


def file_of(data: bytes, name: str) -> Path:
    path = scratch("fuzz") / name
    path.write_bytes(data)
    return path


def checked(found: Sequence[Finding]) -> None:
    """Findings that can be printed: one line each, none of which commands a terminal."""
    for finding in found:
        assert finding.origin.file, finding
        assert finding.message, finding
        assert finding.hint, finding
    for language in phrases.LANGUAGES:
        phrases.use(language)
        assert all(line.isprintable() for line, _ in report.as_lines(found))
    phrases.use(phrases.ENGLISH)
    assert len(json.loads(report.as_json(found))) == len(found)


def told(read: Callable[..., Any], *words: Any) -> Any:
    """What is read, None where it is refused in the right way."""
    try:
        return read(*words)
    except SwapconfError as error:
        refused = error.findings
    assert refused
    checked(refused)
    return None


def told_in_words(read: Callable[..., Any], *words: Any) -> Any:
    """The same for what the command line refuses with the text of a ValueError."""
    try:
        return read(*words)
    except ValueError as error:
        refusal = error
    assert type(refusal) is ValueError, repr(refusal)
    assert str(refusal)
    return None


def reader(read: Callable[[Path], Any], name: str) -> Target:
    return lambda data: told(read, file_of(data, name)) and None


def study(document: Any) -> None:
    """Everything that the commands ask of a config, without running it."""
    known = study_document(document, Versions(), {})
    checked(known.findings)
    report.summary(known.findings, 1)
    format_config(known.config)
    cluster = rank_order.cluster_of(document)
    for words in ("stages", "all"):
        told_in_words(rank_order.ranks_of, words, cluster)
    if known.strategy is not None:
        explanation.rows(known.strategy)
        logged = {entry.layer.name: strategy_lines(entry, known.strategy.swap_on) for entry in known.strategy.layers}
        json.loads(explanation.as_json(known.strategy, logged))


def yaml(data: bytes) -> None:
    document = told(lambda path: parse(read_text(path), str(path)), file_of(data, "train.yaml"))
    if document is not None:
        told(study, document)


def large_yaml(data: bytes) -> None:
    """What `check` does with the largest YAML that is read: one line of an input, again and again."""
    document = told(lambda path: parse(read_text(path), str(path)), file_of(grown(data, MAX_BYTES), "train.yaml"))
    if document is not None:
        found = study_document(document, Versions(), {}).findings
        assert all(line.isprintable() for line, _ in report.as_lines(found))


BASE = """\
model: {model_config: {type: LlamaConfig, num_layers: 4, use_flash_attention: True}}
swap_config: {swap: True}
recompute_config: {select_recompute: False}
"""


def command_overrides(data: bytes) -> None:
    words = data.decode("utf-8", "surrogateescape").splitlines()
    changes = [word for word in words if "=" in word and not word.startswith("--")]
    path = file_of(BASE.encode(), "base.yaml")
    document = told(told_in_words, overrides.read, ["--config", str(path), *words], changes)
    if document is not None:
        told(study, document)


def pattern(data: bytes) -> None:
    """One pattern a line, eight in one file: how many slow ones add up to is told by tests/unit/test_patterns.py."""
    patterns = data.decode("utf-8", "replace").split("\n")[:8]
    settings = {
        "model": {"model_config": {"type": "LlamaConfig", "num_layers": 4, "use_flash_attention": True}},
        "swap_config": {
            "swap": True,
            "op_swap": [{"op_name": text, "backward_prefetch": 1, "layers": True} for text in patterns[::2]],
        },
        "recompute_config": {"select_recompute": dict.fromkeys(patterns[1::2], True)},
    }
    study(from_plain(settings, nowhere()))


def worker_log_stream(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for line in text.split("\n")[:20]:
        worker_logs.parse(line)
    whole, half = file_of(data, "worker_0.log"), file_of(data[: len(data) // 2], "worker_0.log.1")
    for rank in (None, 0):
        found = worker_logs.read(log_folder.Stream(paths=(half, whole), rank=rank, own_rank=True))
        assert not found.trouble


def logs_below(data: bytes) -> None:
    """One path a line, made below a folder; what the machine itself refuses as a name is left out."""
    folder = scratch("fuzz") / "logs"
    for name in data.split(b"\n")[:12]:
        path = Path(os.fsdecode(os.path.normpath(os.path.join(os.fsencode(folder), name.lstrip(b"/")))))
        if folder not in path.parents:
            continue
        with suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    folder.mkdir(exist_ok=True)
    streams, _ = log_folder.find(folder)
    for stream in streams:
        worker_logs.read(stream)
    rmtree(folder, ignore_errors=True)


def log_of_a_failed_run(data: bytes) -> None:
    found = run_log.read(file_of(data, "worker_0.log"))
    list(ending_text.strange_figures(found))
    if found.endings:
        ending_text.ending_table(found)
        ending_text.advice_table(found.endings[0])
    if found.failures:
        told = answer(found)
        oom_text.as_record(found, told)
        oom_text.failure_table(found, told)
    else:
        list(oom_text.endings(found))


def log_of_a_run(data: bytes) -> None:
    told(memory_log.read, file_of(data, "worker.log"))
    tail = data.decode("utf-8", "replace")
    for ending, code in ((Ending.EXITED, 1), (Ending.SIGNALLED, 11), (Ending.TIMED_OUT, 0)):
        judge.fault(Finished(ending=ending, code=code, seconds=1.0), tail, 1 << 40)


def peaks(data: bytes) -> None:
    path = file_of(data, "predicted.json")
    for found in (told_in_words(predicted_peaks.read, path, "train.yaml") or {}).values():
        units.show_bytes(found.used_bytes)
        units.show_bytes(found.with_fragments_bytes)


def cached_report(data: bytes) -> None:
    found = report_cache.read(
        file_of(data, "report.json"), rank_order.RankOrder(document=nowhere("train.yaml"), rank=0)
    )
    if found is not None:
        json.dumps(as_record(found))
        checked(found.findings)
        for size in (found.used_peak_bytes, found.with_fragments_peak_bytes, found.headroom_bytes, found.host_bytes):
            units.show_bytes(size)


def run_json(data: bytes) -> None:
    """run.json beside a trace, and result.json of the child."""
    folder = file_of(data, "run.json").parent
    known = run_record.report(folder)
    for name in ("reserved_bytes", "device_bytes", "limit_bytes", "used_peak_bytes"):
        units.show_bytes(known.get(name))
    assert range(10**8)[known.get("rank", 0)] == known.get("rank", 0)
    assert range(10**8)[known.get("stage", 0)] == known.get("stage", 0)
    run_record.is_whole(known)
    child.reserved_bytes(folder / "run.json")


def shim_index(data: bytes) -> None:
    assert isinstance(shim_cache.read_json(file_of(data, "index.json")), dict)


def elf(data: bytes) -> None:
    from swapconf.dryrun.shim import elf as library
    from swapconf.dryrun.shim.symbols import behaviour, may_define

    with suppress(DryRunError):
        found = library.read_library(file_of(data, "libtiny.so"))
        for name in found.undefined | found.weak:
            if may_define(name):
                assert name.isidentifier()
                assert name.isascii()
                behaviour(name)


def command_line(data: bytes) -> None:
    cluster = rank_order.cluster_of(
        from_plain({"parallel_config": {"data_parallel": 4, "pipeline_stage": 2}}, nowhere())
    )
    for word in data.decode("utf-8", "replace").split("\n"):
        told_in_words(units.parse_bytes, word)
        told_in_words(rank_order.ranks_of, word, cluster)
        Versions(mindspore=word, mindformers=word).fact("recomputed_consumer_voids_swap")


def trace(data: bytes) -> None:
    """All files of a trace, read together, and what the commands `memory` and `timeline` make of them."""
    folder = scratch("fuzz") / "rank_0"
    folder.mkdir(exist_ok=True)
    for part in data.split(SEPARATOR):
        name, _, content = part.partition(b"\n")
        if name in (b"memory_block.csv", b"tracker_graph.ir", b"execute_order.csv"):
            (folder / name.decode()).write_bytes(content)
    found = told(trace_folder.read, folder, 0)
    rmtree(folder)
    if found is not None:
        told(simulated, found)


def calibrated_kernels(data: bytes) -> None:
    """What is read is fitted, and a file of what is found is read again."""
    kernels = told(kernel_details.read, file_of(data, "kernel_details.csv"))
    if kernels is not None:
        found = calibration.calibrated(kernels, (), hardware.load("ascend_910b2"), "fuzz")
        made = hardware.as_data("fuzz", found.figures, found.fits, found.card, found.kinds, found.seen)
        hardware.read(file_of(json.dumps(made).encode(), "card.json"))


def simulated(found: Any) -> None:
    view.of_trace(found, title="fuzz", origin="fuzz")
    with suppress(ValueError):  # a finding of `swapconf timeline`: the trace has no graph
        work, steps = costing.workload(found), program.program(found)
        known = costing.costs(work, hardware.load("generic"))
        line = timeline.replay(steps, known.duration_us)
        timeline.memory(line, lifetimes(found))
        timeline.prefetches(line)


TARGETS: dict[str, Target] = {
    "yaml": yaml,
    "large_yaml": large_yaml,
    "overrides": command_overrides,
    "pattern": pattern,
    "command_line": command_line,
    "memory_block": reader(memory_block.read, "memory_block.csv"),
    "task_table": reader(task_table.read, "task.csv"),
    "tracker_graph": reader(tracker_graph.read, "tracker_graph.ir"),
    "execute_order": reader(execute_order.read, "execute_order.csv"),
    "trace": trace,
    "operator_memory": reader(operator_memory.read, "operator_memory.csv"),
    "memory_record": reader(memory_record.read, "memory_record.csv"),
    "npu_mem": reader(memory_record.read_device, "npu_mem.csv"),
    "npu_module_mem": reader(memory_record.read_modules, "npu_module_mem.csv"),
    "static_op_mem": reader(static_memory.read, "static_op_mem.csv"),
    "memscope_dump": reader(leak_dump.read, "memscope_dump.csv"),
    "step_trace_time": reader(step_trace.read, "step_trace_time.csv"),
    "measured_steps": reader(partial(measured_step.read, measured_step.KERNELS), "kernel_details.csv"),
    "kernel_details": calibrated_kernels,
    "op_statistic": reader(kernel_details.read_statistic, "op_statistic.csv"),
    "trace_view": reader(trace_view.read, "trace_view.json"),
    "hardware": reader(hardware.read, "card.json"),
    "predicted_peaks": peaks,
    "memory_log": log_of_a_run,
    "worker_logs": worker_log_stream,
    "failed_run": log_of_a_failed_run,
    "log_folder": logs_below,
    "result_cache": cached_report,
    "run_record": run_json,
    "shim_index": shim_index,
    "elf": elf,
}
# the slow ones and those behind which little lies get fewer inputs of a run
SHARE = {
    name: {
        "yaml": 8,
        "pattern": 1,
        "trace": 3,
        "overrides": 3,
        "log_folder": 1,
        "command_line": 1,
        "shim_index": 1,
        "large_yaml": 1,
    }.get(name, 2)
    for name in TARGETS
}
