"""DOCUMENT -> KIND: what a YAML is for, where it shares sections with a training YAML and is none."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from swapconf.config import rl_training
from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, PYNATIVE_SECTIONS, RECOMPUTE_KEYS
from swapconf.config.meant import meant
from swapconf.config.nodes import Document, Entry, Node
from swapconf.config.remedies import likely_key
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import mark, phrase

RULE = "other-file"


class Kind(Enum):
    """What a file is for; the value says so, "" for one of a training."""

    TRAINING = ""
    RL = mark("a YAML of RL training, which names the YAML of each of its models")
    PIPELINE_BALANCE = mark("a file of mindformers' pipeline-balance tool (toolkit/pipeline_balance)")
    EXPERIMENTAL = mark("a YAML of mindformers' experimental parallel core, which has another trainer")
    FOREIGN = mark("no YAML of mindformers: none of its sections has a key that mindformers reads")


# sections of the tool in mindformers 1.4 and 1.5, with what stands in them (toolkit/pipeline_balance/cfgs, and its
# readme); `pipeline_config` of a training stands below `parallel`
_BALANCE = (
    ("pipeline_config", ("pipeline_num",)),
    ("pipeline_config", ("num_layer",)),
    ("time_config", ("head", "body")),
    ("memory_usage", ("head_memory", "body_memories")),
    ("profiling_config", ("head_layers", "body_layers")),
    ("backward_coef", ("full", "select")),
)
_BALANCED_BY_HAND = ("offset", "select_recompute", "interleave_num")  # of each simulation in cfgs/manual_demo.yaml
# mindformers/experimental/parallel_core/pynative of mindformers 1.3 to 1.5
_EXPERIMENTAL = ("training_config", "parallel_config")
_OTHER_KEYS_OF_TRAINING = (
    "model",
    "context",
    "parallel",
    "parallel_config",
    "parallelism",
    "training",
    "training_args",
    "trainer",
    "runner_config",
    "runner_wrapper",
    "optimizer",
    "lr_schedule",
    "train_dataset",
    "moe_config",
    "run_mode",
    "use_parallel",
    "use_legacy",
    "load_checkpoint",
    "pretrained_model_dir",
)
_KEYS_OF_SECTIONS = (
    *(name for names in MCORE_SWAP_KEYS.values() for name in names),
    *RECOMPUTE_KEYS,
    *("enable", "mode", "full_recompute_layer", "select_module", "exclude_op"),
)


def kind_of(document: Document) -> Kind:
    """What is for nothing else is taken for a training, or a part of one."""
    root = document.root
    if "model" in root.entries:
        return Kind.TRAINING
    if rl_training.is_one(document):
        return Kind.RL
    if any(_has_all(root.get(name), keys) for name, keys in _BALANCE) or _is_balanced_by_hand(root):
        return Kind.PIPELINE_BALANCE
    if all(name in root.entries for name in _EXPERIMENTAL):
        return Kind.EXPERIMENTAL
    return Kind.FOREIGN if _is_foreign(root) else Kind.TRAINING


def told(document: Document, kind: Kind) -> Iterator[Finding]:
    """One note for what is no training; what is for RL is checked."""
    if kind in (Kind.TRAINING, Kind.RL):
        return
    first = next(iter(document.root.entries.values()), None)
    yield Finding(
        origin=document.key_origin(first, first.key) if first is not None else Origin(file=document.file),
        rule=RULE,
        severity=Severity.NOTE,
        message=phrase("this is {kind}", kind=phrase(kind.value)),
        hint=phrase("nothing of it is checked: name a YAML for training"),
    )


def _has_all(node: Node | None, keys: tuple[str, ...]) -> bool:
    return node is not None and all(key in node.entries for key in keys)


def _is_balanced_by_hand(root: Node) -> bool:
    values = [entry.value for entry in root.entries.values()]
    return bool(values) and all(all(key in value.entries for key in _BALANCED_BY_HAND) for value in values)


def _is_foreign(root: Node) -> bool:
    """Whether it has a section of ours by name, and nothing in it, or beside it, is of mindformers."""
    ours = [root.entries[name] for name in (*GRAPH_SECTIONS, *PYNATIVE_SECTIONS) if name in root.entries]
    if not ours or any(key in _OTHER_KEYS_OF_TRAINING or meant(key, _OTHER_KEYS_OF_TRAINING) for key in root.entries):
        return False
    return all(_has_content(entry) for entry in ours) and not any(
        likely_key(key, _KEYS_OF_SECTIONS) for entry in ours for key in entry.value.entries
    )


def _has_content(entry: Entry) -> bool:
    return entry.value.kind == "list" or bool(entry.value.entries)
