"""The rules that have no module of their own, in one table: (severity, manual page) by name.

Those about what a YAML means are modules in ``decide/rules``.
"""

from __future__ import annotations

from collections.abc import Mapping

Pages = Mapping[str, tuple[str, str]]

# the file itself
READING: Pages = {
    "file-not-found": ("error", "The file does not exist, is a folder, or may not be read."),
    "yaml-encoding": ("error", "The file is not UTF-8; the place of the first wrong byte is given."),
    "yaml-empty": ("error", "The file holds no value."),
    "yaml-syntax": ("error", "The file is not valid YAML, holds a second document, or has a key that is not text."),
    "yaml-not-mapping": ("error", "The top level is a list or a single value."),
    "yaml-too-large": ("error", "More than 100,000 bytes or 50,000 YAML events."),
    "yaml-too-deep": ("error", "Nested deeper than 60 levels."),
    "yaml-alias-bomb": (
        "error",
        "Aliases or merge keys that expand to more than 50,000 values, or that contain themselves.",
    ),
    "yaml-huge-number": ("error", "A number of more than 40 characters."),
    "yaml-tag": ("error", "A tag such as `!!python/tuple`, which mindformers' safe loader refuses."),
    "yaml-duplicate-key": (
        "error, warning",
        "A key that stands twice in one mapping; PyYAML keeps the last value silently. A warning where both are equal.",
    ),
    "yaml-trap": (
        "warning, note",
        "A plain value that YAML 1.1 reads as something else: `010` (octal), `1:30` (base 60), `1e3` (text); a "
        "note for `yes`, `no`, `on`, `off` (booleans).",
    ),
}

# structure of the two sections
STRUCTURE: Pages = {
    "bad-type": (
        "error",
        "A value of the wrong type, such as `swap: 1`, `layers: 2`, `layers: (0, 1)` or `backward_prefetch: True`.",
    ),
    "bad-value": ("error", "A value of the right type that cannot be used, such as `backward_prefetch: 0`."),
    "too-many-mistakes": (
        "error",
        "A section with 1,000 structural mistakes or more: the others are not told, and nothing else is said of "
        "the section before these are corrected.",
    ),
    "missing-key": (
        "error",
        "An entry of `layer_swap` or `op_swap` without `layers`, `backward_prefetch` or `op_name`.",
    ),
    "unknown-key": (
        "error, warning",
        "A key that the section does not have: mindformers stops (error); one that an entry does not have: "
        "mindformers ignores it (warning), or stops because the key that was meant is missing (error).",
    ),
    "recompute-form": (
        "error",
        "A form of `recompute`, `select_recompute` or their relatives that mindformers does not take, or not "
        "together with swap: counts are flat or nested one level without swap, layer indices are flat with it.",
    ),
    "section-given-twice": (
        "error",
        "Settings both in `swap_config` (or `recompute_config`) and in `model.model_config`: the legacy and the "
        "mcore dialect in one file.",
    ),
    "two-dialects": (
        "error",
        "A PyNative section (`swap`, `recompute`, `recompute_comm`) beside one of graph mode (`swap_config`, "
        "`recompute_config`, the mcore keys of `model_config`), or one of graph mode in a PyNative YAML (one with "
        "`training` or `parallelism`).",
    ),
    "pynative-form": (
        "error, warning, note",
        "In a PyNative YAML: an entry of `layer_swap` after the first, which mindformers 2.0.0 does not read; a "
        "mode or switch without the list that it needs, or a list without the mode that reads it; a swap that "
        "names nothing; an empty module path.",
    ),
    "section-misplaced": (
        "error, warning",
        "Swap or recompute settings where nothing reads them: keys of a section at the top level, a section below "
        "`model`, `context` or `parallel_config`, the mcore keys in the `model.model_config` of a legacy model. A "
        "warning where they ask for nothing, and where nothing else of the file is of a training, so that another "
        "program may read it. `base_config` below a section, where mindformers does not follow it.",
    ),
    "base-config": (
        "error",
        "A file that `base_config` names and that cannot be read, includes itself, or is too much (more than 64 "
        "files, 16 levels or 400,000 characters); a section over a value that is none, at which mindformers stops; the "
        "key in a PyNative YAML, which takes no other file. Mistakes in an included file are told with its own name "
        "and line.",
    ),
    "rl-training": (
        "error, warning, note",
        "In a YAML of RL training (mindrlhf), of which each model is checked by itself: a section or key that mindrlhf "
        "does not take there, `swap_config` and `recompute_config` that it does not pass on, `recompute_config` of a "
        "model that is not trained, and a `model_config` whose YAML cannot be read here.",
    ),
    "other-file": (
        "note",
        "The file is no YAML of a training but one of mindformers' pipeline-balance tool, of its experimental parallel "
        "core, or of another program whose sections have the same names. Nothing of it is checked.",
    ),
    "unknown-section": (
        "error, warning",
        "A section of the top level whose name is nearly `swap_config`, `recompute_config` or one of PyNative's, or a "
        "list of YAML files under nearly `base_config`: mindformers ignores it. A warning where it asks for nothing.",
    ),
    "section-empty": (
        "error, warning",
        "A section without content: its keys were probably meant to be indented below it. An error in PyNative mode, "
        "where mindformers stops at it.",
    ),
    "pretrained-config": (
        "note",
        "The folder of `pretrained_model_dir` holds no config.json that can be read. mindformers takes the model "
        "from there, and `model.model_config` over it.",
    ),
    "odd-indentation": (
        "error",
        "A key indented with a character that is no space to YAML, such as U+3000 from a Chinese input method or "
        "the no-break space U+00A0, which becomes a part of its name.",
    ),
}

# what is said beside a YAML: the settings of its repository, and the comments that silence a rule
CHECKING: Pages = {
    "settings": (
        "error, warning",
        "Something in `.swapconf.toml`, or in `[tool.swapconf]` of pyproject.toml, that cannot be used: not TOML, "
        "an unknown key, rule, family or severity. In a run, a warning where it names other versions than are "
        "installed.",
    ),
    "ignore-unused": ("warning", "A comment `# swapconf: ignore[rule] reason` that silences nothing."),
    "ignore-without-reason": ("warning", "A comment `# swapconf: ignore[rule]` that does not say why."),
    "ignore-unknown-rule": (
        "error",
        "A comment `# swapconf: ignore` without a rule in brackets, or with one that does not exist.",
    ),
    "apply-comment": (
        "error",
        "A comment `# swapconf: apply[key, ...]` that names no key, or one that mindformers does not drop: "
        "`plain-mindformers-differs` tells which there are.",
    ),
    "passed-otherwise": (
        "error",
        "In a run, mindformers passes another number of layers, other pipeline stages, another swap or another "
        "recompute to the layers than the config had when it was read: a script changed it in between. The run "
        "stops before a layer is built.",
    ),
    "no-training-yaml": ("warning", "A folder that was to be checked holds no training YAML that git does not ignore."),
}

# rewriting a file
REWRITING: Pages = {
    "migrate-layout": (
        "error",
        "`swapconf migrate` changes lines of the sections for swap and recompute only, and these cannot be "
        "rewritten so: a section in a flow mapping, or an anchor or merge key that reaches into one.",
    )
}

# dry runs and their traces
DRY_RUNS: Pages = {
    "expert-load": (
        "error",
        "A file of `--expert-load` that does not name each expert of the model once, has something else than a number "
        "for one, or more tokens for one than there are: a token goes to several different experts.",
    ),
    "framework-error": (
        "error",
        "A rank did not end well; the framework's own words are quoted. It stands at the line of "
        "the finding that foresaw these words, if any did, and names its rule.",
    ),
    "does-not-fit": (
        "error",
        "The peak with fragments is above the device memory that the rank may use. MindSpore does not report this "
        "in a dry run.",
    ),
    "pynative-no-dry-run": (
        "error",
        "A part of PyNative mode that a dry run does not do: other levels than 1, several ranks, or a mindformers or "
        "MindSpore from before PyNative training. Nothing is started.",
    ),
    "graph-engine-no-dry-run": (
        "error",
        "`jit_level: O2` where there is no CANN: its graph engine would compile the graph and plan the memory. Nothing "
        "is started.",
    ),
    "no-training": (
        "error",
        "A YAML without `optimizer`, or with `run_mode: predict` or `eval`: mindformers cannot train with it, and a "
        "dry run is one of training. Nothing is started.",
    ),
    "no-optimizer": (
        "error",
        "mindformers cannot build the optimizer, for what `optimizer-gone` says with less weight: code of one's own "
        "may bring one of that name, and no such code is told. Nothing is started.",
    ),
    "no-model": (
        "error",
        "mindformers cannot build the model, for what `model-not-named` or `pretrained-config` says with less weight: "
        "a script of one's own may name the model, and a dry run has none. Nothing is started.",
    ),
    "no-model-code": (
        "error",
        "`auto_register` in `model.arch` or `model.model_config`, and neither `--register-path` nor the variable "
        "REGISTER_PATH names a folder with that code: mindformers cannot build the model. Nothing is started.",
    ),
    "graph-not-kept": (
        "warning",
        "A run without swap and recompute is kept where less is free than MindSpore may print before its graph can be "
        "kept (24 MiB for each layer of the stage and micro-batch, at most 6 GiB): the trace is without it, and "
        "`whatif` and `plan` do not know MindSpore's own order.",
    ),
    "level-not-reached": (
        "warning",
        "Level 2 or 3 was asked for, and cannot be estimated: MindSpore wrote no graph (`memory_optimize_level` "
        "O1), which tells what its kernels work on.",
    ),
    "memory-limit-cut": (
        "warning",
        "`context.max_device_memory` is above what MindSpore takes of the device; it cuts the limit silently.",
    ),
    "memory-pool-cut": ("note", "MindSpore's memory pool block is larger than the memory that is left, and is cut."),
    "memory-grows": (
        "warning",
        "A dry run of several steps (`--steps`) holds more after each step from the third on: device memory, pinned "
        "host memory, Tensors of the process, or its host memory by more than runs add that keep nothing.",
    ),
    "decision-without-effect": (
        "warning",
        "A dry run shows that a swap which is decided moves nothing: lazy inline is off, the backward pass does "
        "not read the operator's output, or the memory was planned ahead.",
    ),
    "effect-without-decision": (
        "warning",
        "A dry run shows copies to the host where no swap is decided: the run used another YAML or other "
        "versions, or the model sets a swap by itself.",
    ),
    "recompute-not-in-effect": (
        "warning",
        "A dry run shows that the backward pass reads what the forward pass computed, although a recompute of it "
        "is decided: the memory is not freed. The run used another YAML or other versions, or another part of the "
        "model excludes the operator. Or a recompute of communication is decided in a layer where no "
        "communication is recomputed.",
    ),
    "recompute-not-decided": (
        "warning",
        "A dry run shows operators that are recomputed where no recompute is decided: the run used another YAML "
        "or other versions, or the model recomputes by itself.",
    ),
    "trace-encoding": ("error", "A trace file is not UTF-8 text, or holds zero bytes, as after a full disk."),
    "trace-truncated": (
        "error",
        "A trace file is empty or breaks off in the middle of a line: the run did not end by itself.",
    ),
    "trace-header": (
        "error",
        "The columns of a trace file are not those that MindSpore's memory tracker or a profiler writes.",
    ),
    "trace-garbled": (
        "error",
        "A line of a trace file cannot be read, or contradicts the lines before it: rows are missing, repeated or "
        "changed.",
    ),
    "trace-incomplete": ("error", "A trace file lacks what the other files of the same run speak of."),
}

# memory, from a trace
MEMORY: Pages = {
    "fragmentation-gap": (
        "warning",
        "The pool needs over 1 GiB more than is in use at once. The hint names the setting with the lowest peak "
        "in a replay of the same allocations.",
    ),
    "collectives-starved": (
        "warning",
        "What the pool may take leaves less of the device than the buffers of the collective library (2 x "
        "HCCL_BUFFSIZE for each communicator) need. The pool does not give memory back to other libraries.",
    ),
    "kernels-fused": (
        "note",
        "The trace for a what-if is of a run with `jit_level: O1`. The prediction is about the operators in its fused "
        "kernels; where the trace does not tell them, their names do, which holds less well. A plan from it is always "
        "confirmed.",
    ),
    "trace-inlined-otherwise": (
        "note",
        "A what-if of a step with neither stages nor accumulation: mindformers turns lazy inline off there, and swap "
        "keeps it on. MindSpore launches kernels in another order then. The trace is of a run of the other kind; the "
        "command makes one of the same kind, with swap on and nothing swapped.",
    ),
    "trace-unrecorded": (
        "note",
        "A what-if from a trace that another program left, without the record (run.json) of the settings of its "
        "run: only what the trace itself shows is compared with the YAML, so it can still be of another "
        "vocabulary or optimizer.",
    ),
    "pool-unexplained": (
        "note",
        "A what-if from a trace in which MindSpore's pool does not follow the rules that are known of it "
        "(docs/evidence/pool.md), as with memory_optimize_level O1: the peak with fragments and the reserved memory of "
        "the prediction are approximate. The used peak does not depend on the pool.",
    ),
    "entry-saves-nothing": (
        "warning",
        "By a what-if, the peak is no lower with this entry of the YAML than without it, although it moves or "
        "recomputes tensors: the peak is at a moment when they are not in memory anyway, or their device copies "
        "are kept.",
    ),
    "prefetch-underflow": (
        "error",
        "By a what-if, MindSpore dies while it compiles: it checks backward_prefetch against a position that counts "
        "the copies, and then subtracts it from one that does not, which falls below zero, so that it reads memory "
        "that it has not written. What lies there differs from run to run, and some runs are spared. Seen with "
        "MindSpore 2.7.2 and 2.9.0; where the range begins and ends is predicted.",
    ),
    "prefetch-stranded": (
        "error",
        "By a what-if, MindSpore stops with `The pointer[ker_ptr] is null` while it compiles, in a step of one "
        "micro-batch: a copy back to the device is made to wait for the kernel that stands backward_prefetch kernels "
        "ahead of its reader, which there may be a branch of a condition (the learning rate of legacy models, "
        "gradients that overflow). MindSpore puts branches inline later, and one that is waited for stays, which "
        "nothing can launch. Values beside one on which it stops mostly compile; with gradient accumulation all do. "
        "Told from traces that have MindSpore's graph and lazy inline; seen with MindSpore 2.9.0.",
    ),
    "graph-cycle": (
        "error",
        "By a what-if, MindSpore stops with `Graph cycle exists` while it compiles: a copy back to the device is made "
        "to wait for the kernel that stands backward_prefetch kernels ahead of its reader; where that one runs again "
        "and waits for what that reader is given besides, the copy among it, each waits for the other. Seen with "
        "MindSpore 2.7.2, 2.9.0 and 2.10.0.",
    ),
    "copies-never-read": (
        "warning",
        "By a what-if, tensors are copied to the host and never back: the layer itself recomputes a Reshape "
        "(mcore's Linears and MLP do), so MindSpore 2.9.0 takes its input for needed, and finds only after it has "
        "placed the copy that nothing reads it. The copies take the link and keep the device memory until they "
        "are done.",
    ),
    "entry-costs-memory": (
        "warning",
        "By a what-if, the peak is higher with this entry of the YAML than without it: with a large prefetch two "
        "copies of a tensor live on the device at once.",
    ),
}

# logs of a run
LOGS: Pages = {
    "log-line-missing": (
        "error",
        "A worker log does not say that something is set which the config decides for a layer of that rank: the "
        "rank ran another YAML or another version, or mindformers lost the section.",
    ),
    "log-line-differs": ("error", "A worker log says another backward_prefetch than the config decides."),
    "log-line-undecided": (
        "error",
        "A worker log says that something is set which the config does not ask for: the rank ran another YAML, or "
        "the log also holds an older run.",
    ),
    "log-swap-void": (
        "error",
        "A worker log says that swap is set, and MindSpore warns in it that the swap has no effect, as the layers "
        "are not lazily inlined.",
    ),
    "log-swap-recomputed": (
        "note",
        "A worker log, as of mindformers without swapconf, says that a swap is set where the config also "
        "recomputes; recompute wins, so nothing is swapped there, as decided.",
    ),
    "log-missing": (
        "error",
        "There is no log for a rank that the config describes, or there is one for a rank that it does not describe.",
    ),
    "log-without-strategy": (
        "error",
        "A worker log holds no line about swap or recompute at all, although the config decides some: the rank "
        "stopped before the model was built, or does not log at level INFO.",
    ),
    "log-of-several-runs": (
        "warning",
        "A rank has several logs of the same kind in different folders, as of several runs: they are read as one, "
        "so that a line of any of them counts for the rank.",
    ),
    "run-died": (
        "error",
        "A rank did not end as it should: the message tells of what the first of them died (memory, a kernel, a "
        "device, a link, the program), what it did last, and which others only waited for it. That the log agrees with "
        "the config up to there is told beside it. `swapconf oom` tells more.",
    ),
    "peak-impossible": (
        "note",
        "Figures of memory in a worker log that contradict each other: a peak with fragments below the one without, a "
        "peak above what the pool may take or above the card.",
    ),
    "log-unread": ("warning", "A log was not read to its end, or it is not known to which rank it belongs."),
    "peak-above-predicted": (
        "warning",
        "A rank logged a higher peak than was predicted for it, by more than `--slack`. A dry run on level 1 does "
        "not count operator workspace, which a card needs in addition.",
    ),
    "log-of-no-step": ("error", "A worker log gives the peak as 0: the process ended before its first step."),
    "peak-not-logged": (
        "note",
        "A rank for which a peak is predicted did not log one; MindSpore logs it when the process ends.",
    ),
    "log-not-compared": ("note", "The operators of the model are not known, so the strategy lines are not compared."),
}

# time
TIMES: Pages = {
    "hardware-profile": (
        "error",
        "A hardware profile cannot be read: it is not JSON, has another structure, a figure that is not known, is "
        "not between 0.001 and 1,000,000,000 or has no source.",
    ),
    "card-of-profile": (
        "error, warning",
        "A profile does not look like the card that `--hardware` names, by its cores, their clock, or what its "
        "memory and its products of matrices reach (warning); it is not recognised, and no card is named (error).",
    ),
}

OTHERS: Pages = {**REWRITING, **DRY_RUNS, **MEMORY, **LOGS, **TIMES}


def page(name: str, rule: tuple[str, str]) -> str:
    severity, text = rule
    return f"{name}: {text} ({severity})"
