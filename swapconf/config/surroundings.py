"""DOCUMENT -> CONFIG, the rest: what resolution needs from `context`, `parallel`, `parallel_config` and `model`.

A PyNative YAML (mindformers 2.0) has `parallelism` for `parallel_config`, and no `model_config` below `model`. These
sections belong to mindformers: they are read, not judged, except where a value that swapconf needs is unusable.
"""

from __future__ import annotations

from typing import NamedTuple

from swapconf.config import pretrained
from swapconf.config.config import Config, Model, Pipeline, Runtime
from swapconf.config.nodes import Document, Node
from swapconf.config.remedies import describe, remedy
from swapconf.upstream import conditional
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

# mindformers' names for the same setting; the first that is given counts
NUM_LAYERS = ("num_layers", "num_hidden_layers", "n_layers", "n_layer", "num_layer")
_NUM_MTP_LAYERS = ("mtp_num_layers", "num_nextn_predict_layers", "mtp_depth")
_CLASSES = (
    "model.model_config.type",
    "model.model_config.model_type",
    "model.model_config.architectures",
    "model.arch.type",
    "model.arch.auto_register",
)
_NUM_INTERLEAVES = ("pp_interleave_num", "virtual_pipeline_model_parallel_size")
_DETERMINISTIC = (
    "train_precision_sync",
    "context.train_precision_sync",
    "context.deterministic",
    "training.deterministic",
)
_CONTEXT_IS_PARTED = "1.9.0"  # the first mindformers that passes on some keys of `context` only (build_context.py)
_PARALLEL = ("parallel_config", "parallelism")
_LAYOUT = (  # read by decide/layout.py
    "parallel.parallel_mode",
    "parallel.full_batch",
    "parallel.dataset_strategy",
    conditional.SCHEDULE,
    conditional.SHARDS_OPTIMIZER,
    conditional.OPTIMIZER_SHARDS,
    "parallel_config.use_seq_parallel",
    "calculate_per_token_loss",  # beside parts of a sequence
    "recompute_config.recompute",
    *conditional.DATA,
    *conditional.EXPERTS,
)
_MAX_LAYERS = 1_000  # far above any model; keeps a typo from costing memory


class Surroundings(NamedTuple):
    """A config without its swap and recompute, and what was unusable."""

    config: Config
    findings: tuple[Finding, ...]


def read(document: Document, mindformers: str) -> Surroundings:
    """``mindformers``: the version that reads it."""
    reader = _Reader(document, mindformers)
    legacy = reader.legacy()
    for path in ("model", "model.model_config", "model.arch", "moe_config", *_CLASSES):
        reader.node(path)  # rules point at them
    for path in ("model.model_config", "moe_config", conditional.SCHEDULE):
        reader.keys(path)
    section = _plain(document.root.get("model"))
    config = Config(
        file=document.file,
        pipeline=reader.pipeline(),
        runtime=reader.runtime(),
        model=Model(
            legacy=legacy,
            section=section,
            moe=_plain(document.root.get("moe_config")),
            has_unread_folder=reader.value(pretrained.KEY) not in (None, ""),
            num_layers=reader.count(*in_model(NUM_LAYERS), least=0, most=_MAX_LAYERS),
            num_mtp_layers=reader.count(*in_model(_NUM_MTP_LAYERS), least=0, most=_MAX_LAYERS) or 0,
        ),
        optimizer=optimizer if isinstance(optimizer := reader.value("optimizer.type"), str) else "",
        given=reader.given(),
        origins=reader.origins,
    )
    return Surroundings(config, tuple(reader.findings))


def _plain(node: Node | None) -> dict[str, object]:
    value = node.plain() if node is not None else None
    return dict(value) if isinstance(value, dict) else {}


def in_model(names: tuple[str, ...]) -> tuple[str, ...]:
    """Where a setting of the model may stand, by its names."""
    return tuple(f"{section}.{name}" for section in ("model.model_config", "model") for name in names)


class _Reader:
    def __init__(self, document: Document, mindformers: str) -> None:
        self.document = document
        self._context_is_whole = not reached(mindformers, _CONTEXT_IS_PARTED)
        self.findings: list[Finding] = []
        self.origins: dict[str, Origin] = {}

    def node(self, path: str) -> Node | None:
        entry = self.document.entry_at(path)
        if entry is None:
            return None
        self.origins[path] = self.document.key_origin(entry, path)
        return entry.value

    def keys(self, path: str) -> None:
        """Note where each key of a section stands."""
        entry = self.document.entry_at(path)
        for key, inner in entry.value.entries.items() if entry is not None else ():
            self.origins[f"{path}.{key}"] = self.document.key_origin(inner, f"{path}.{key}")

    def given(self) -> dict[str, object]:
        """What stands at the paths of settings that count beside others only."""
        found = {path: self.node(path) for path in (*conditional.PATHS, *_LAYOUT, "run_mode", "use_legacy")}
        return {path: node.plain() for path, node in found.items() if node is not None}

    def value(self, path: str) -> object:
        """The scalar at a path; None when it is absent or not a scalar."""
        node = self.node(path)
        return node.scalar if node is not None and node.kind == "scalar" else None

    def legacy(self) -> bool:
        """Whether a legacy model is built, as where nothing is said; text is true to Python, and becomes a finding.

        Source: mindformers 1.9.0, tools/register/template.py, GeneralConfig.
        """
        node = self.node("use_legacy")
        if node is None or node.kind != "scalar" or node.scalar is None or isinstance(node.scalar, bool):
            return node is None or node.scalar is not False
        self._unusable("use_legacy", node, phrase("True or False"), remedy(node, {"type": "boolean"}, ""))
        return str(node.scalar).lower() != "false"  # what was surely meant, so that the rest is checked

    def word(self, *paths: str) -> str | None:
        for path in paths:
            value = self.value(path)
            if isinstance(value, str) and value:
                return value
        return None

    def count(self, *paths: str, least: int = 1, most: int = 1_000_000) -> int | None:
        """A whole number in a range; a finding when something else stands there."""
        for path in paths:
            node = self.node(path)
            if node is None or (node.kind == "scalar" and node.scalar is None):
                continue
            if isinstance(node.scalar, int) and not isinstance(node.scalar, bool) and least <= node.scalar <= most:
                return node.scalar
            self._unusable(path, node, phrase("a whole number from {least} to {most:,}", least=least, most=most))
            return None
        return None

    def pipeline(self) -> Pipeline:
        stages = (
            self.count(
                "parallel_config.pipeline_stage",
                "parallel_config.pipeline_model_parallel_size",
                "parallelism.pipeline_parallel",
                most=_MAX_LAYERS,
            )
            or 1
        )
        interleaved = self.value(f"{conditional.SCHEDULE}.{conditional.INTERLEAVE}") is True
        scheduler = self.word(f"{conditional.SCHEDULE}.{conditional.SCHEDULER}")
        interleaves = self.count(*(f"model.model_config.{name}" for name in _NUM_INTERLEAVES), most=_MAX_LAYERS) or 1
        return Pipeline(
            num_stages=stages,
            is_told=any(self.document.root.get(name) is not None for name in _PARALLEL),
            num_interleaves=interleaves if interleaved else 1,
            offset=self._offset("model.model_config.offset"),
            zero_bubble_v=interleaved and scheduler == "zero_bubble_v",
            start_stage=self.count("model.model_config.start_stage", least=0) or 0,
            gradient_aggregation_group=self.count("parallel_config.gradient_aggregation_group") or 4,
            model_parallel=self.count(
                "parallel_config.model_parallel",
                "parallel_config.tensor_model_parallel_size",
                "parallelism.tensor_parallel",
            )
            or 1,
            context_parallel=self.count(
                "parallel_config.context_parallel",
                "parallel_config.context_parallel_size",
                "parallelism.context_parallel",
            )
            or 1,
            sequence_parallel=any(
                self.value(name) is True
                for name in (
                    "parallel_config.use_seq_parallel",
                    "parallel_config.sequence_parallel",
                    "parallelism.sequence_parallel",
                )
            ),
            packs_sequences=self.value("train_dataset.dataloader.config.create_compressed_eod_mask") is True,
            is_one_card=self.is_one_card(),
        )

    def is_one_card(self) -> bool:
        """Source: mindformers 2.0.0, Trainer._compute_data_parallel_size, which refuses more ranks than the batch has
        samples for; both sizes are 1 where they are not given."""
        if self.node("training") is None:
            return False
        samples = self.count("training.global_batch_size") or 1
        degrees = ("tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel")
        is_alone = all((self.count(f"parallelism.{degree}") or 1) == 1 for degree in degrees)
        return is_alone and samples < 2 * (self.count("training.local_batch_size") or 1)

    def runtime(self) -> Runtime:
        mode = self.value("context.mode")
        graph = (
            {0: True, 1: False, "GRAPH_MODE": True, "PYNATIVE_MODE": False}.get(mode)
            if isinstance(mode, (int, str))
            else None
        )
        parallel_mode = self.value("parallel.parallel_mode")
        stand_alone = (
            True
            if self.value("use_parallel") is False
            else str(parallel_mode).lower() == "stand_alone"
            if parallel_mode is not None
            else None
        )
        return Runtime(
            device_target=self.word("context.device_target"),
            graph_mode=graph,
            jit_level=self.word("context.jit_config.jit_level", *["context.jit_level"] * self._context_is_whole),
            memory_optimize_level=self.word("context.memory_optimize_level"),
            stand_alone=stand_alone,
            gradient_accumulation_steps=self.count("runner_config.gradient_accumulation_steps"),
            batch_size=self.count("runner_config.batch_size"),
            disable_lazy_inline=self.value("model.model_config.disable_lazy_inline") is True,
            max_device_memory=self.word("context.max_device_memory"),
            deterministic=self._deterministic(),
            optimizer_swap=self.value("optimizer.swap") is True,
        )

    def _deterministic(self) -> bool | None:
        """Whether sums are computed in a fixed order: of mindformers ``train_precision_sync``, which outweighs
        ``context.deterministic`` (core/context/build_context.py) and from 1.9.0 on is alone; of PyNative
        ``training.deterministic``."""
        unread = () if self._context_is_whole else ("context.deterministic",)
        for path in (path for path in _DETERMINISTIC if path not in unread):
            value = self.value(path)
            if isinstance(value, bool):
                return value
            if value in ("ON", "OFF"):
                return value == "ON"
        return None

    def _offset(self, path: str) -> tuple[tuple[int, ...], ...]:
        node = self.node(path)
        if node is None or (node.scalar is None and node.kind == "scalar"):
            return ((0,),)
        nested = bool(node.items) and all(item.kind == "list" for item in node.items)
        rows = [item.items for item in node.items] if nested else [node.items if node.kind == "list" else (node,)]
        numbers = [
            [leaf.scalar for leaf in row if type(leaf.scalar) is int and abs(leaf.scalar) <= _MAX_LAYERS]
            for row in rows
        ]
        if all(len(row) == len(leaves) > 0 for row, leaves in zip(numbers, rows, strict=True)):
            return tuple(map(tuple, numbers))
        self._unusable(path, node, phrase("a whole number, a list of them (one per stage) or a list of such lists"))
        return ((0,),)

    def _unusable(self, path: str, node: Node, expected: str, hint: str = "") -> None:
        self.findings.append(
            Finding(
                origin=self.document.origin(node, path),
                rule="bad-value",
                severity=Severity.ERROR,
                message=phrase("expected {expected}, found {found}", expected=expected, found=describe(node)),
                hint=hint or phrase("correct the value"),
            )
        )
