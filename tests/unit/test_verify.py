"""Logs in the forms that swapconf and mindformers 1.9.0 write, broken in the ways in which logs break."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.files import log_folder, log_pool
from swapconf.verify import worker_logs
from swapconf.verify.deviation import counted
from swapconf.verify.worker_logs import LoggedEntry, Said, Skipped, parse, read
from tests.helpers import document_of

HOOK = "2026-11-20 15:01:24,300 - mindformers/run/output/log[swapconf/train/hook.py:116] - INFO - "
UTILS = (
    "2026-11-20 15:01:24,195 - mindformers/run/output/log[mindformers/parallel_core/training_graph/transformer/"
    "utils.py:339] - INFO - "
)
OUTSIDE = (
    "[WARNING] PARALLEL(29406,7f4efa073b80,python):2026-11-20-15:01:36.411.094 [mindspore/ccsrc/frontend/"
    "parallel/pass/offload_activation.cc:252] WarningOffloadOutsideLazyInline] Offload does not take effect "
    "outside the scope of the lazy_inline Cell. NOde: @129_construct_102:CNode_106"
)
MIB = 2**20

CONFIG = """\
swap_config:
  swap: True
  op_swap:
    - {op_name: attention, backward_prefetch: 20, layers: [0, 1]}
    - {op_name: feed_forward, backward_prefetch: 15, layers: [1]}
recompute_config: {select_recompute: {feed_forward: [3]}}
runner_config: {gradient_accumulation_steps: 2}
parallel_config: {data_parallel: 4, pipeline_stage: 2, micro_batch_num: 4}
model:
  model_config: {type: LlamaConfig, num_layers: 4, use_flash_attention: True}
  arch: {type: LlamaForCausalLM}
"""
LINES = (
    "Set op_swap at layer 0: .attention, value=20",
    "Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
    "Set select recompute at layer 3: feed_forward",
)


def log(lines: Iterable[str] = LINES, peak: int = 900, prefix: str = HOOK) -> str:
    body = [prefix + line for line in lines]
    return "\n".join(
        [
            "start",
            *body,
            "step 1",
            f"Used peak memory usage (without fragments): {peak}M",
            f"Actual peak memory usage (with fragments): {peak + 10}M",
            "",
        ]
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "train.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Eight ranks that agree."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(8):
        (folder / f"worker_{rank}.log").write_text(log())
    return folder


@pytest.fixture(autouse=True)
def _no_earlier_dry_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def verify(logs: Path, config: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["verify", str(logs), "--config", str(config), *words])


def findings(logs: Path, config: Path, *words: str) -> list[tuple[str, str]]:
    """(rule, message), and that the exit code fits."""
    result = verify(logs, config, "--format", "json", *words)
    record = json.loads(result.stdout)
    assert result.exit_code == (0 if record["agrees"] else 1)
    return [(finding["rule"], finding["message"]) for finding in record["findings"]]


def said(path: Path) -> Said:
    """What the only stream of a folder says."""
    (stream,) = log_folder.find(path)[0]
    (one,) = read(stream).by_rank.values()
    return one


# --- lines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "entries"),
    [
        (
            f"{UTILS}Set op_swap at layer 0:  attention.flash_attention, value=10",
            {LoggedEntry(0, "op_swap", "attention.flash_attention", 10)},
        ),
        (
            f"{UTILS}Set layer swap at layer 2                             and value is: 1",
            {LoggedEntry(2, "layer swap", "", 1)},
        ),
        (f"{HOOK}Set layer swap at layer 2 and value is: 1", {LoggedEntry(2, "layer swap", "", 1)}),
        (
            f"{HOOK}Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
            {LoggedEntry(1, "op_swap", "attention", 20), LoggedEntry(1, "op_swap", "feed_forward", 15)},
        ),
        ("Set full recompute at layer 12", {LoggedEntry(12, "full recompute", "")}),
        (
            "Set select recompute on at layer 0: feed_forward.mul, attention",
            {
                LoggedEntry(0, "select recompute on", "feed_forward.mul"),
                LoggedEntry(0, "select recompute on", "attention"),
            },
        ),
        (
            "Set select comm recompute exclude at layer 0: norm.cast",
            {LoggedEntry(0, "select comm recompute exclude", "norm.cast")},
        ),
        (
            "Set op_swap at layer 0: .attention, value=20, .feed_forw 2026-11-20 other words",
            {LoggedEntry(0, "op_swap", "attention", 20)},
        ),
        ("50%|\r51%|\r" + LINES[0] + "\r", {LoggedEntry(0, "op_swap", "attention", 20)}),
        ("Set op_swap at layer x: .attention, value=20", set()),
        ("Set the mood at layer 3: dim", set()),
        ("Formative op swap at layer 3", set()),
        ("Set layer swap at layer 2 and value is: ", set()),
    ],
)
def test_what_a_line_says(line: str, entries: set[LoggedEntry]) -> None:
    assert parse(line) == (entries, set())


def test_what_is_skipped() -> None:
    assert parse(f"{HOOK}Skip op_swap at layer 1: .feed_forward, feed_forward is recomputed [R1-recompute-wins]") == (
        set(),
        {Skipped(1, "op_swap", "feed_forward", "R1-recompute-wins")},
    )
    assert parse("Skip layer swap at layer 1: the whole layer, all of it, is recomputed [R1-recompute-wins]") == (
        set(),
        {Skipped(1, "layer swap", "", "R1-recompute-wins")},
    )


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("worker_7.log", 7),
        ("worker_7.log.2", 7),
        ("10.0.0.1_node_12.log", 12),
        ("rank_3/info.log", 3),
        ("rank_3/worker.log", 3),
        ("rank_3/deep/error.log.1", 3),
        ("node/worker_0.log", 0),
        ("rank_2.log", 2),
        ("train_20261120.log", None),
        ("train.log", None),
    ],
)
def test_the_rank_is_told_by_names(tmp_path: Path, name: str, rank: int | None) -> None:
    path = tmp_path / "here" / name
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert [stream.rank for stream in log_folder.find(tmp_path / "here")[0]] == [rank]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("scheduler.log", "model.ckpt", "events.txt", "worker_0.log.1.gz"):
        (tmp_path / name).write_text(LINES[0])
    streams, packed = log_folder.find(tmp_path)
    assert not streams
    assert packed == [str(tmp_path / "worker_0.log.1.gz")]


def test_a_log_may_tell_its_own_rank(logs: Path) -> None:
    own = "[WARNING] ME [collective_manager.cc:291] rank size: 8, rank id: 5, local rank id: 1. Real rank size: 1.\n"
    (logs / "worker_0.log").write_text(own + log())
    (stream, *_) = log_folder.find(logs)[0]
    assert list(read(stream).by_rank) == [5]
    (logs / "worker_0.log").write_text("local rank id: 5\n" + log())
    assert list(read(stream).by_rank) == [0]


def test_only_the_beginning_of_a_log_tells_its_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_logs, "BLOCK_BYTES", 64)
    (tmp_path / "worker_0.log").write_text("step\n" * 1000 + "rank id: 5\n" + log())
    (stream,) = log_folder.find(tmp_path)[0]
    assert list(read(stream).by_rank) == [5]
    monkeypatch.setattr(worker_logs, "_RANK_BYTES", 4999)
    assert list(read(stream).by_rank) == [0]


def test_rotated_parts_are_one_stream_the_oldest_first(tmp_path: Path) -> None:
    for part, lines in (
        (".10", "Used peak memory usage (without frag"),
        (".9", "ments): 7M\nSet full recomp"),
        (".1", "ute at layer 1\n"),
        ("", "Used peak memory usage (without fragments): 9M"),
    ):
        (tmp_path / f"worker_0.log{part}").write_text(lines)
    found = said(tmp_path)
    assert found.entries == {LoggedEntry(1, "full recompute", "")}
    assert found.used_peak_bytes == 9 * MIB
    (tmp_path / "worker_0.log").unlink()
    assert said(tmp_path).used_peak_bytes == 7 * MIB


@pytest.mark.parametrize("tag", ["[1,{}]<stdout>:", "{}: ", " {}: ", "[rank{}]: ", "rank {}: ", "[Rank {}] "])
def test_ranks_in_one_log(tmp_path: Path, config: Path, tag: str) -> None:
    several = [[tag.format(rank) + line for line in log(peak=rank + 1).splitlines()] for rank in range(8)]
    lines = [line for group in zip(*several, strict=True) for line in group]
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    assert findings(tmp_path, config) == []
    (tmp_path / "job.log").write_text(
        "\n".join(line for line in lines if "at layer 0" not in line or tag.format(2) not in line) + "\n"
    )
    assert findings(tmp_path, config) == [
        (
            "log-line-missing",
            "rank 2: op_swap of attention at layer 0 is decided, but not logged (backward_prefetch 20)",
        )
    ]


def test_a_log_of_no_rank(logs: Path, config: Path) -> None:
    (logs / "console.log").write_text(log())
    assert findings(logs, config) == [("log-unread", "not read: neither its name nor its lines tell the rank")]


def test_a_compressed_part_is_told(logs: Path, config: Path) -> None:
    (logs / "worker_0.log.1.gz").write_bytes(b"")
    assert findings(logs, config) == [("log-unread", "not read: it is compressed")]


def test_a_line_that_breaks_off_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "worker_0.log").write_text(LINES[0] + "\n" + LINES[1][:-1])
    assert said(tmp_path).entries == {LoggedEntry(0, "op_swap", "attention", 20)}


def test_garbage_and_huge_lines(tmp_path: Path) -> None:
    noise = bytes(range(256)).replace(b"\n", b"") * 4096
    body = b"\n".join(
        [
            noise,
            LINES[0].encode(),
            noise * 3,
            b"\0" * 300_000,
            LINES[2].encode(),
            b"\xff at layer \xfe",
            noise + LINES[1].encode(),
            b"",
        ]
    )
    (tmp_path / "worker_0.log").write_bytes(body)
    assert {entry.layer for entry in said(tmp_path).entries} == {0, 1, 3}


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    text = "x" * 5000 + log() + f"{OUTSIDE}\n" * 3
    (tmp_path / "worker_0.log").write_text(text)
    whole = said(tmp_path)
    monkeypatch.setattr(worker_logs, "BLOCK_BYTES", block)
    assert said(tmp_path) == whole
    assert (whole.outside_lazy_inline, len(whole.entries), whole.size_bytes) == (3, 4, len(text))


def test_links_in_circles(logs: Path, config: Path) -> None:
    (logs / "again").symlink_to(logs, target_is_directory=True)
    (logs / "worker_9.log").symlink_to("worker_9.log")
    (logs / "gone.log").symlink_to("nowhere")
    os.mkfifo(logs / "worker_10.log")
    assert findings(logs, config) == []


def test_a_log_that_cannot_be_read(logs: Path, config: Path) -> None:
    stream = log_folder.Stream(paths=(logs / "gone.log", logs / "worker_0.log"), rank=0, own_rank=True)
    told = read(stream)
    assert told.trouble == ((str(logs / "gone.log"), "No such file or directory"),)
    assert len(told.by_rank[0].entries) == 4


def test_the_notes_on_one_log_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_logs, "MAX_ENTRIES", 50)
    (tmp_path / "worker_0.log").write_text("".join(f"Set full recompute at layer {n}\n" for n in range(1000)))
    assert len(said(tmp_path).entries) == 50


# --- ranks against the config ---------------------------------------------------------------------------------------


def test_ranks_that_agree(logs: Path, config: Path) -> None:
    result = verify(logs, config)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [("0-3", "0", "agrees"), ("4-7", "1", "agrees")]


def test_logs_of_plain_mindformers(logs: Path, config: Path) -> None:
    config.write_text(CONFIG.replace("op_swap:", "layer_swap: [{backward_prefetch: 3, layers: [2]}]\n  op_swap:"))
    lines = (LINES[0], LINES[1].replace(": .", ":  ."), LINES[2], f"Set layer swap at layer 2{' ' * 29}and value is: 3")
    for rank in range(8):
        (logs / f"worker_{rank}.log").unlink()
        folder = logs / f"log/rank_{rank}"
        folder.mkdir(parents=True)
        (folder / "info.log").write_text(log(lines, prefix=UTILS))
        (folder / "error.log").write_text("")
    assert findings(logs, config) == []


def test_what_stands_in_two_logs_of_a_rank_counts_once(logs: Path, config: Path) -> None:
    (logs / "rank_3").mkdir()
    (logs / "rank_3/info.log").write_text(log())
    assert findings(logs, config) == []


def test_plain_mindformers_logs_what_recompute_undoes(logs: Path, config: Path) -> None:
    config.write_text(CONFIG.replace("feed_forward: [3]", "feed_forward: [1, 3]"))
    recomputed = (*LINES, "Set select recompute at layer 1: feed_forward")
    for rank in range(8):
        (logs / f"worker_{rank}.log").write_text(log(recomputed, prefix=UTILS))
    assert findings(logs, config) == [
        (
            "log-swap-recomputed",
            "ranks 0-7: op_swap of feed_forward at layer 1 is logged as set, but has no effect, as "
            "decided [R1-recompute-wins]",
        )
    ]


def test_a_line_is_missing(logs: Path, config: Path) -> None:
    for rank in (0, 1, 3):
        (logs / f"worker_{rank}.log").write_text(log(LINES[:1] + LINES[2:]))
    assert findings(logs, config) == [
        (
            "log-line-missing",
            "ranks 0-1, 3: op_swap of attention at layer 1 is decided, but not logged (backward_prefetch 20)",
        ),
        (
            "log-line-missing",
            "ranks 0-1, 3: op_swap of feed_forward at layer 1 is decided, but not logged (backward_prefetch 15)",
        ),
    ]


def test_the_finding_points_at_the_entry(logs: Path, config: Path) -> None:
    (logs / "worker_1.log").write_text(log(LINES[1:]))
    (finding,) = json.loads(verify(logs, config, "--format", "json").stdout)["findings"]
    assert (finding["path"], finding["line"]) == ("swap_config.op_swap[0].op_name", 4)


def test_layers_of_other_stages_need_not_be_logged(logs: Path, config: Path) -> None:
    for rank in range(8):
        (logs / f"worker_{rank}.log").write_text(log(LINES[:2] if rank < 4 else LINES[2:]))
    assert findings(logs, config) == []


def test_another_prefetch(logs: Path, config: Path) -> None:
    other = [line.replace("value=20", "value=7") for line in LINES]
    (logs / "worker_2.log").write_text(log(other))
    assert findings(logs, config) == [
        ("log-line-differs", "rank 2: op_swap of attention at layers 0-1: backward_prefetch 20 is decided, 7 is logged")
    ]


def test_something_that_is_not_decided(logs: Path, config: Path) -> None:
    (logs / "worker_5.log").write_text(log([*LINES, "Set layer swap at layer 2 and value is: 4"]))
    assert findings(logs, config) == [
        (
            "log-line-undecided",
            "rank 5: layer swap of the whole layer at layer 2 is logged, but not decided (backward_prefetch 4)",
        )
    ]


def test_something_that_was_skipped(logs: Path, config: Path) -> None:
    skip = "Skip op_swap at layer 0: .attention, the layer is recomputed [R1-recompute-wins]"
    (logs / "worker_0.log").write_text(log([skip, *LINES[1:]]))
    assert findings(logs, config) == [
        (
            "log-line-missing",
            "rank 0: op_swap of attention at layer 0 is decided, but skipped [R1-recompute-wins] "
            "(backward_prefetch 20)",
        )
    ]
    (logs / "worker_0.log").write_text(log([*LINES, skip.replace("layer 0", "layer 2")]))
    assert findings(logs, config) == [
        ("log-line-undecided", "rank 0: op_swap of attention at layer 2 is logged as skipped, but not asked for")
    ]


SWAP_OFF = CONFIG.partition("  op_swap")[0].replace("True", "False")
REST = CONFIG[CONFIG.index("runner_config") :]
SWAP = CONFIG.partition("recompute_config")[0]


def recompute_only(config: Path, logs: Path, section: str, *lines: str) -> list[tuple[str, str]]:
    """Swap is off; all ranks log the same."""
    config.write_text(f"{SWAP_OFF}recompute_config: {section}\n{REST}")
    for rank in range(8):
        (logs / f"worker_{rank}.log").write_text(log(lines))
    return sorted(findings(logs, config))


def test_recompute_in_another_layer(logs: Path, config: Path) -> None:
    """Two stages of two layers: the count 1, 0 is layer 0."""
    assert recompute_only(config, logs, "{recompute: [1, 0]}", "Set full recompute at layer 0") == []
    assert recompute_only(config, logs, "{recompute: [1, 0]}", "Set full recompute at layer 1") == [
        ("log-line-missing", "ranks 0-3: full recompute of the whole layer at layer 0 is decided, but not logged"),
        ("log-line-undecided", "ranks 0-7: full recompute of the whole layer at layer 1 is logged, but not decided"),
    ]


def test_each_operator_of_a_recompute(logs: Path, config: Path) -> None:
    section = r"{select_recompute: {'feed_forward\.mul': True, attention: [2, 0]}}"
    right = [
        "Set select recompute on at layer 0: feed_forward.mul, attention",
        "Set select recompute on at layer 1: feed_forward.mul, attention",
        "Set select recompute on at layer 2: feed_forward.mul",
        "Set select recompute on at layer 3: feed_forward.mul",
    ]
    assert recompute_only(config, logs, section, *right) == []
    assert recompute_only(config, logs, section, right[0], right[1].replace(", attention", ""), *right[2:]) == [
        ("log-line-missing", "ranks 0-3: select recompute of attention at layer 1 is decided, but not logged")
    ]
    assert recompute_only(config, logs, section, *right[:3], f"{right[3]}, attention") == [
        ("log-line-undecided", "ranks 0-7: select recompute of attention at layer 3 is logged, but not decided")
    ]


def test_recompute_of_communication(logs: Path, config: Path) -> None:
    section = r"{select_comm_recompute: {'.*\.norm': [1, 0]}}"
    line = "Set select comm recompute on at layer 0: attention_norm.norm, ffn_norm.norm"
    assert recompute_only(config, logs, section, line) == []
    assert recompute_only(config, logs, section, line.replace("comm ", "")) != []
    assert [rule for rule, _ in recompute_only(config, logs, section, line.replace("layer 0", "layer 3"))] == [
        "log-line-missing",
        "log-line-missing",
        "log-line-undecided",
        "log-line-undecided",
    ]


def test_mindformers_logs_the_last_operator_of_a_pattern_only(logs: Path, config: Path) -> None:
    section = "{select_recompute: {'.*_norm': [1, 0]}}"
    assert recompute_only(config, logs, section, "Set select recompute on at layer 0: ffn_norm") == []
    assert len(recompute_only(config, logs, section, "Set select recompute on at layer 0: attention")) == 3


def test_mindformers_does_not_log_that_all_layers_are_recomputed_where_it_swaps(logs: Path, config: Path) -> None:
    config.write_text(f"{SWAP}recompute_config: {{recompute: True}}\n{REST}")
    for rank in range(8):
        (logs / f"worker_{rank}.log").write_text(log(LINES[:2], prefix=UTILS))
    assert {rule for rule, _ in findings(logs, config)} == {"log-swap-recomputed"}
    config.write_text(f"{SWAP}recompute_config: {{recompute: [0]}}\n{REST}")
    assert (
        "log-line-missing",
        "ranks 0-3: full recompute of the whole layer at layer 0 is decided, but not logged",
    ) in findings(logs, config)


def test_a_recompute_that_was_skipped(logs: Path, config: Path) -> None:
    skip = "Skip recompute at layer 0: ., every operator of it is excluded [recompute-void]"
    assert recompute_only(config, logs, "{recompute: [1, 0]}", skip) == [
        (
            "log-line-missing",
            "ranks 0-3: full recompute of the whole layer at layer 0 is decided, but skipped [recompute-void]",
        )
    ]
    skip = "Skip select recompute at layer 0: .attention, every operator of it is excluded [recompute-void]"
    assert recompute_only(config, logs, "{select_recompute: {attention: [1, 0]}}", skip) == [
        (
            "log-line-missing",
            "ranks 0-3: select recompute of attention at layer 0 is decided, but skipped [recompute-void]",
        )
    ]


def test_a_swap_without_effect(logs: Path, config: Path) -> None:
    for rank in range(4):
        (logs / f"worker_{rank}.log").write_text(log() + f"{OUTSIDE}\n" * (rank + 1))
    assert findings(logs, config) == [
        (
            "log-swap-void",
            "ranks 0-3: swap is set at layers 0-1, but MindSpore warns that it has no effect outside of lazy inline",
        )
    ]


def test_no_log_and_no_line(logs: Path, config: Path) -> None:
    for rank in (1, 2, 6):
        (logs / f"worker_{rank}.log").unlink()
    (logs / "worker_7.log").write_text(log([]))
    (logs / "worker_8.log").write_text(log())
    assert sorted(findings(logs, config)) == [
        ("log-missing", "rank 8: there is a log, but the config describes 8 devices only"),
        ("log-missing", "ranks 1-2, 6: there is no log"),
        ("log-without-strategy", "rank 7: the log says nothing of swap or recompute"),
    ]
    (logs / "worker_8.log").unlink()
    (logs / "worker_7.log").write_text(log())
    assert findings(logs, config, "--ranks", "stages") == []


def test_a_process_that_ended_early(logs: Path, config: Path) -> None:
    (logs / "worker_4.log").write_text(log(peak=0))
    assert findings(logs, config) == [("log-of-no-step", "rank 4: the logged peak is 0, so that no step was run")]


def test_a_config_without_swap(logs: Path, config: Path) -> None:
    config.write_text(
        CONFIG.replace("swap: True", "swap: False").replace(
            "recompute_config: {select_recompute: {feed_forward: [3]}}\n", ""
        )
    )
    assert {rule for rule, _ in findings(logs, config)} == {"log-line-undecided"}
    for rank in range(8):
        (logs / f"worker_{rank}.log").write_text(log([]))
    assert findings(logs, config) == []


def test_a_model_that_is_not_known(logs: Path, config: Path) -> None:
    config.write_text(CONFIG.replace("Llama", "Unheard"))
    assert findings(logs, config) == [("log-not-compared", "the operators of this model are not known")]


# --- how the run ended ----------------------------------------------------------------------------------------------

KERNEL = (
    "[ERROR] DEVICE(7,ffff01,python):2026-11-02-10:00:05.000.001 [mindspore/a.cc:3] F] Run Task failed, task_id: 1, "
    "stream_id: 3, tid: 7, device_id: 8, retcode: 507015 (aicore exception)\n"
    "{ Epoch:[  1/  1], step:[    2/  100] }\n"
    "[ERROR] DEVICE(7,ffff01,python):2026-11-02-10:00:05.000.001 [mindspore/a.cc:3] F] Run Task failed, task_id: 1, "
    "stream_id: 3, tid: 7, device_id: 8, retcode: 507015 (aicore exception)\n"
)
WAITED = "EI0002: [PID: 7] 2026-11-02-10:00:03.000 The wait execution of the Notify register times out.\n"


def died(logs: Path, rank: int, text: str) -> None:
    with (logs / f"worker_{rank}.log").open("a") as file:
        file.write(text)


def test_a_run_that_died_is_not_said_to_agree_although_the_decision_does(logs: Path, config: Path) -> None:
    died(logs, 1, KERNEL)
    for rank in (0, 2, 3):
        died(logs, rank, WAITED)
    assert findings(logs, config) == [
        ("run-died", "ranks 0, 2-3: waited in vain for another rank"),
        (
            "run-died",
            "rank 1: ended by an exception of a kernel on the device (507015, aicore exception), on device 8, after "
            "step 2 of 100",
        ),
    ]
    text = verify(logs, config)
    assert text.exit_code == 1
    assert "agrees, but run-died" in text.stdout
    assert f"{logs / 'worker_1.log'}:" in text.stdout
    assert "it is not memory, as no allocation failed; `swapconf oom" in text.stdout
    record = json.loads(verify(logs, config, "--format", "json").stdout)
    assert (record["agrees"], record["as_decided"]) == (False, True)
    assert [one["as_decided"] for one in record["ranks"]] == [True] * 8
    assert [one["ended"] is None for one in record["ranks"]] == [False] * 4 + [True] * 4


def test_a_rank_that_died_and_differs_is_told_as_both(logs: Path, config: Path) -> None:
    (logs / "worker_1.log").write_text(log(LINES[1:]) + KERNEL)
    record = json.loads(verify(logs, config, "--format", "json").stdout)
    assert (record["as_decided"], record["ranks"][1]["rules"]) == (False, ["log-line-missing", "run-died"])


def test_a_run_that_ran_out_of_memory_is_told_as_that(logs: Path, config: Path) -> None:
    message = "Device(id:0) memory isn't enough and alloc failed, kernel name: x, alloc size: {}B.\n"
    died(logs, 1, message.format(2**31))
    assert findings(logs, config) == [("run-died", "rank 1: ended as memory ran out: 2.00G were asked for")]
    died(logs, 0, message.format(-4096))
    assert findings(logs, config) == [
        ("run-died", "rank 1: ran out of memory, too"),
        ("run-died", "rank 0: ended as it asked for memory of a size that cannot be"),
    ]


def test_what_comes_after_the_end_of_training_did_not_end_the_run(logs: Path, config: Path) -> None:
    died(logs, 1, "[INFO] ME [mindformers] - INFO - .........Training Over!.............\nSegmentation fault\n")
    assert findings(logs, config) == []


def test_an_end_of_no_rank_is_told_of_the_run(logs: Path, config: Path) -> None:
    (logs / "msrun.log").write_text(
        "[ERROR] ME [_api.py:364] Worker process 4711 exit with exception. Error code: -9.\n"
    )
    assert findings(logs, config) == [("run-died", "the run: ended by signal 9 (killed)")]


def test_the_only_log_of_a_run_of_one_device_is_that_of_its_rank(tmp_path: Path, config: Path) -> None:
    config.write_text(CONFIG.replace("data_parallel: 4, pipeline_stage: 2, micro_batch_num: 4", "data_parallel: 1"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "job.log").write_text(log() + KERNEL)
    (told,) = [text for rule, text in findings(tmp_path / "one", config) if rule == "run-died"]
    assert told.startswith("rank 0: ended by an exception of a kernel")


# --- peaks ----------------------------------------------------------------------------------------------------------


def report(rank: int, used: int, fragments: int, file: str = "train.yaml") -> dict[str, object]:
    return {
        "file": file,
        "rank": rank,
        "used_peak_bytes": used,
        "with_fragments_peak_bytes": fragments,
        "origin": "dry run level 1 (operator workspace excluded)",
    }


def test_peaks_against_predicted_ones(logs: Path, config: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "predicted.json"
    predicted.write_text(json.dumps([report(0, 900 * MIB + 5, 911 * MIB), report(4, 890 * MIB, 911 * MIB)]))
    (logs / "worker_6.log").write_text(log(peak=901))
    words = ("--predicted", str(predicted))
    assert findings(logs, config, *words) == [
        ("peak-above-predicted", "ranks 4-7: the used peak is above the predicted 890.0M, by up to 11.0M")
    ]
    assert findings(logs, config, *words, "--slack", "11MB") == []
    assert findings(logs, config, *words, "--slack", "10MB") == [
        ("peak-above-predicted", "rank 6: the used peak is above the predicted 890.0M, by 11.0M")
    ]
    row = next(line for line in verify(logs, config, *words).stdout.splitlines() if line.startswith("4-7"))
    assert row.split()[3:] == [
        "900.0M",
        "to",
        "901.0M",
        "890.0M",
        "910.0M",
        "to",
        "911.0M",
        "911.0M",
        "peak-above-predicted",
    ]


def test_a_peak_that_was_not_logged(logs: Path, config: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "predicted.json"
    predicted.write_text(json.dumps([report(0, 2**40, 2**40)]))
    (logs / "worker_0.log").write_text("\n".join(LINES) + "\n")
    assert findings(logs, config, "--predicted", str(predicted)) == [("peak-not-logged", "rank 0: no peak is logged")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "[{}]",
        "[" * 100_000,
        "\xff",
        json.dumps([{**report(0, 1, 1), "used_peak_bytes": -1}]),
        json.dumps([report(0, 1, 1, "a.yaml"), report(0, 1, 1, "b.yaml")]),
    ],
)
def test_what_is_no_prediction(logs: Path, config: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text, encoding="latin-1")
    result = verify(logs, config, "--predicted", str(tmp_path / "p.json"))
    assert result.exit_code == 2
    assert "p.json" in result.stderr


def test_earlier_dry_runs_are_found(logs: Path, config: Path) -> None:
    from swapconf.dryrun import report_cache
    from swapconf.dryrun.outcome import RankOutcome, RankReport
    from swapconf.dryrun.rank_order import RankOrder

    report_cache.store(
        RankOrder(document=document_of(config), rank=0, fold=True),
        RankReport(
            file=str(config),
            rank=0,
            stage=0,
            level=1,
            outcome=RankOutcome.COMPLETED,
            used_peak_bytes=899 * MIB,
            with_fragments_peak_bytes=2**40,
        ),
    )
    assert findings(logs, config) == [
        ("peak-above-predicted", "ranks 0-3: the used peak is above the predicted 899.0M, by up to 1.0M")
    ]


def test_peaks_that_contradict_each_other_are_noted(logs: Path, config: Path) -> None:
    """As on a public page (tests/oom/ended/SOURCES.md, impossible-peaks)."""
    sizes = "Device MOC memory size: 65536M\nMindSpore Used memory size: {}M\nMindSpore memory base address: 0xf\n"
    peaks = "Used peak memory usage (without fragments): {}M\nActual peak memory usage (with fragments): {}M\n"
    start = "\n".join(LINES) + "\n"
    (logs / "worker_2.log").write_text(start + sizes.format(59392) + peaks.format(55389, 55341))
    (logs / "worker_3.log").write_text(start + sizes.format(59392) + peaks.format(59000, 70000))
    (logs / "worker_4.log").write_text(start + sizes.format(70000) + peaks.format(59000, 59000))
    (logs / "worker_5.log").write_text(start + sizes.format(59392) + peaks.format(59000, 59392))
    assert findings(logs, config) == [
        (
            "peak-impossible",
            "rank 2: the peak with fragments (54.04G) is below the one without (54.09G), which is a part of it",
        ),
        ("peak-impossible", "rank 3: the peak (68.36G) is above the card (64.00G)"),
        ("peak-impossible", "rank 4: the pool may take 68.36G of a card of 64.00G"),
    ]


# --- the command ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_read(logs: Path, config: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert verify(tmp_path / "empty", config).exit_code == 2
    assert verify(tmp_path / "missing", config).exit_code == 2
    assert verify(logs, tmp_path / "missing.yaml").exit_code == 2
    assert verify(logs, config, "--slack", "much").exit_code == 2
    assert verify(logs, config, "--ranks", "9").exit_code == 2
    config.write_text("swap_config: {swap: True}\n")
    assert verify(logs, config).exit_code == 2


def test_processes_say_the_same(logs: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("joblib")
    (logs / "worker_5.log").write_text(log(LINES[:2]))
    alone = verify(logs, config, "--format", "json", "--jobs", "1").stdout
    monkeypatch.setattr(log_pool, "POOL_FROM_BYTES", 0)
    assert verify(logs, config, "--format", "json", "--jobs", "2").stdout == alone
    assert "log-line-missing" in alone


def test_ranks_in_words() -> None:
    assert counted("rank", [3]) == "rank 3"
    assert counted("rank", [5, 0, 1, 2, 12, 2]) == "ranks 0-2, 5, 12"


@pytest.mark.parametrize("block_bytes", [7, 64, 2**18])
def test_a_coloured_log_says_what_a_plain_one_says(
    logs: Path, config: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """Whatever the place of the colours, and wherever a block ends."""
    monkeypatch.setattr(worker_logs, "BLOCK_BYTES", block_bytes)
    plain = verify(logs, config, "--format", "json").stdout
    for file in logs.iterdir():
        coloured = log().replace("value=20", "value=\x1b[1;36m20\x1b[0m").replace("at layer", "at\x1b[0m layer")
        file.write_text("".join(f"\x1b[38;2;255;0;0m{line}\x1b[0m\x1b[K\n" for line in coloured.splitlines()))
    found = json.loads(verify(logs, config, "--format", "json").stdout)
    assert found["agrees"]
    assert found["findings"] == json.loads(plain)["findings"]
    assert found["ranks"][0]["used_peak_bytes"] == 900 * MIB
    assert found["ranks"][0]["log_bytes"] == (logs / "worker_0.log").stat().st_size


def test_logs_of_several_runs_are_not_read_as_one_in_silence(logs: Path, config: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number in range(15):
        shutil.copytree(logs, runs / f"run_{number:02}")
    [(rule, message)] = findings(runs, config)
    assert rule == "log-of-several-runs"
    assert message.startswith("ranks 0-7: the logs of 15 runs are read as one: run_00, run_01, run_02, run_03, ...")
    assert "name the folder of one run" in verify(runs, config).output
    assert findings(runs / "run_00", config) == []


def test_several_logs_that_one_run_leaves_for_a_rank_are_one_run(logs: Path, config: Path) -> None:
    for rank in range(8):
        for name in ("info.log", "error.log", "info.log.1"):
            (logs / "log" / f"rank_{rank}").mkdir(parents=True, exist_ok=True)
            (logs / "log" / f"rank_{rank}" / name).write_text(log())
    assert findings(logs, config) == []


def test_two_folders_of_mindformers_logs_are_two_runs(logs: Path, config: Path) -> None:
    for rank in range(8):
        for run in ("monday", "tuesday"):
            (logs / run / f"rank_{rank}").mkdir(parents=True)
            (logs / run / f"rank_{rank}" / "info.log").write_text(log())
    [(rule, message)] = findings(logs, config)
    assert (rule, "monday, tuesday" in message) == ("log-of-several-runs", True)
