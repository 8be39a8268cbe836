"""GRAPH YAML -> the rest of a PyNative YAML: training, optimizer, parallelism, data and a flat model.

Swap and recompute are `to_pynative`'s; this is all else that mindformers' PyNative trainer reads. Source: mindformers
2.0.0, pynative/config/config.py and pynative/trainer/trainer.py, beside the graph-mode keys that they replace. The text
is written anew, without the comments of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from swapconf.config.config import Config
from swapconf.config.dialects import PYNATIVE_SECTIONS
from swapconf.config.nodes import Document
from swapconf.decide.rules.pynative_pipeline_model import WITHOUT_STAGES
from swapconf.migrate.report import Item, carried, changed, lost, to_check
from swapconf.words.findings import Origin
from swapconf.words.phrases import joined, phrase

Plain = dict[str, Any]
_DEFAULT_STEPS = 1000  # mindformers 2.0.0, TrainingConfig
_OPTIMIZER = ("type", "betas", "eps", "weight_decay")
_DATA = ("drop_remainder", "num_parallel_workers", "prefetch_size", "numa_enable")
_COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")
_GRAPH_ONLY = ("offset", "pp_interleave_num", "checkpoint_name_or_path", "batch_size")
_MODELS = ("qwen3", "deepseek_v3", "deepseek_v4")  # mindformers 2.0.0 and 2.1.0
_KNOWN_CALLBACKS = ("MFLossMonitor", "CheckpointMonitor")  # the trainer's own, without being asked


def whole(document: Document, config: Config, sections: Mapping[str, Any]) -> tuple[str, tuple[Item, ...]]:
    """The text of the PyNative YAML, and what became of the rest. ``config``: what the graph-mode ``document`` says;
    ``sections``: swap and recompute as they were migrated."""
    work = _Work(document, config)
    made = {
        "checkpoint": work.checkpoint(),
        "training": work.training(),
        "optimizer": work.optimizer(),
        "lr_scheduler": work.schedule(),
        "parallelism": work.parallelism(),
        "train_dataset": work.data(),
        "model": work.model(),
        **{name: sections[name] for name in PYNATIVE_SECTIONS if sections.get(name) is not None},
        "context": work.context(),
    }
    work.callbacks()
    text = "\n".join(
        yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True) for name, value in made.items() if value
    )
    return text, tuple(work.items)


@dataclass(slots=True)
class _Work:
    document: Document
    config: Config
    items: list[Item] = field(default_factory=list)
    _values: Plain = field(init=False)

    def __post_init__(self) -> None:
        values: Any = self.document.root.plain()
        self._values = values

    def section(self, *path: str) -> Plain:
        found: Any = self._values
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def place(self, path: str) -> Origin:
        entry = self.document.entry_at(path)
        return self.document.key_origin(entry, path) if entry is not None else Origin(file=self.document.file)

    def number(self, section: Mapping[str, Any], key: str, default: int = 1) -> int:
        value = section.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default

    # --- sections -----------------------------------------------------------------------------------------------------

    def checkpoint(self) -> Plain:
        saving = next((one for one in self._callbacks() if one.get("type") == "CheckpointMonitor"), None)
        made: Plain = {"enable_save": saving is not None, "load_path": str(self._values.get("load_checkpoint") or "")}
        if saving is not None:
            made |= {
                "save_max": self.number(saving, "keep_checkpoint_max", 5),
                "save_interleaved_steps": self.number(saving, "save_checkpoint_steps", 1000),
            }
        made["no_load_optim"] = not self._values.get("resume_training")
        return made

    def training(self) -> Plain:
        runner = self.section("runner_config")
        local, batch = self.number(runner, "batch_size"), self._global_batch_size()
        self.items.append(
            carried(
                self.place("runner_config.batch_size"),
                phrase("batches of {local}, {batch} in a step of all cards", local=local, batch=batch),
            )
        )
        clips = self.section("runner_wrapper").get("use_clip_grad")
        return {
            "steps": self._steps(batch),
            "local_batch_size": local,
            "global_batch_size": batch,
            "max_norm": 0.0 if clips is False else 1.0,
            "seed": self.number(self._values, "seed", 0),
        }

    def _global_batch_size(self) -> int:
        runner, parallel = self.section("runner_config"), self.section("parallel_config")
        batch = self.number(runner, "batch_size") * self.number(self._values, "micro_batch_interleave_num")
        if self._values.get("use_parallel"):
            batch *= self.number(parallel, "data_parallel")
        if self.config.pipeline.num_stages > 1:
            return batch * self.number(parallel, "micro_batch_num")
        return batch * self.number(runner, "gradient_accumulation_steps")

    def _steps(self, batch: int) -> int:
        """PyNative counts steps, graph mode epochs of a data set."""
        planned = self.section("lr_schedule").get("total_steps")
        sizes = self.section("train_dataset", "data_loader").get("sizes")
        if isinstance(planned, int) and planned > 0:
            return planned
        if isinstance(sizes, list) and sizes and isinstance(sizes[0], int):
            return max(sizes[0] * self.number(self.section("runner_config"), "epochs") // batch, 1)
        self.items.append(
            to_check(
                self.place("runner_config.epochs"),
                phrase("PyNative counts steps, and the file does not say how many batches its data set has"),
                phrase("correct training.steps, now {steps}", steps=_DEFAULT_STEPS),
            )
        )
        return _DEFAULT_STEPS

    def optimizer(self) -> Plain:
        given = self.section("optimizer")
        if given.get("swap") is True:
            self.items.append(
                lost(
                    self.place("optimizer.swap"),
                    phrase("PyNative training keeps the optimizer's state on the card"),
                    phrase("`parallelism.data_parallel_shard` shards it over the cards"),
                )
            )
        if more := [key for key in given if key not in (*_OPTIMIZER, "swap")]:
            self.items.append(
                to_check(
                    self.place("optimizer"),
                    phrase("not carried over: {keys}", keys=joined(", ", more)),
                    phrase("see `optimizer` of mindformers' PyNative documentation"),
                )
            )
        return {key: given[key] for key in _OPTIMIZER if key in given} or {"type": "AdamW"}

    def schedule(self) -> Plain:
        given = self.section("lr_schedule")
        return {key: value for key, value in given.items() if key != "total_steps"} or {
            "type": "ConstantWarmUpLR",
            "learning_rate": 1.0e-5,
            "warmup_ratio": 0,
        }

    def parallelism(self) -> Plain:
        parallel, pipeline = self.section("parallel_config"), self.config.pipeline
        is_parallel = bool(self._values.get("use_parallel"))

        def degree(key: str) -> int:
            return self.number(parallel, key) if is_parallel else 1

        shards = is_parallel and bool(self.section("parallel").get("enable_parallel_optimizer"))
        if shards:
            self.items.append(
                changed(
                    self.place("parallel.enable_parallel_optimizer"),
                    phrase(
                        "the parallel optimizer becomes FSDP over all data-parallel ranks: parameters are gathered "
                        "layer by layer, forward and backward"
                    ),
                    phrase("choose data_parallel_shard and reshard_after_forward_policy"),
                )
            )
        if pipeline.num_stages > 1 and self.section("model", "model_config").get("offset"):
            self.items.append(
                to_check(
                    self.place("model.model_config.offset"),
                    phrase("how layers are dealt to stages is not carried over"),
                    phrase("write pipeline_parallel_layers_per_stage"),
                )
            )
        made: Plain = {
            "data_parallel_shard": -1 if shards else 1,
            "tensor_parallel": degree("model_parallel"),
            "context_parallel": degree("context_parallel"),
            "expert_parallel": degree("expert_parallel"),
            "pipeline_parallel": degree("pipeline_stage"),
        }
        kind = str(self.section("model", "model_config").get("model_type"))
        if made["pipeline_parallel"] > 1 and kind in WITHOUT_STAGES:
            made["pipeline_parallel"] = 1
            self.items.append(
                lost(
                    self.place("parallel_config.pipeline_stage"),
                    phrase("{model} cannot be cut into stages in PyNative mode", model=kind),
                    phrase("share out its parameters (data_parallel_shard) or its tensors (tensor_parallel)"),
                )
            )
        if made["tensor_parallel"] > 1:
            made["sequence_parallel"] = True  # mindformers 2.1.0 stops without
            if not parallel.get("use_seq_parallel"):
                self.items.append(
                    changed(
                        self.place("parallel_config.model_parallel"),
                        phrase("tensor parallelism of PyNative mode needs sequence_parallel, which is switched on"),
                    )
                )
        return made

    def data(self) -> Plain:
        given = self.section("train_dataset")
        loader = self.section("train_dataset", "data_loader")
        columns = given.get("input_columns") or given.get("construct_args_key") or list(_COLUMNS)
        if (kind := loader.get("type")) not in ("BlendedMegatronDatasetDataLoader", "HFDataLoader"):
            self.items.append(
                to_check(
                    self.place("train_dataset.data_loader.type"),
                    phrase("whether PyNative training reads data by {loader} is not known", loader=kind or "?"),
                    phrase("the shipped YAMLs use BlendedMegatronDatasetDataLoader"),
                )
            )
        dataloader = {key: value for key, value in loader.items() if key != "column_names"}
        return {
            "dataloader": {**dataloader, "column_names": columns},
            **{key: given[key] for key in _DATA if key in given},
        }

    def model(self) -> Plain:
        given = self.section("model", "model_config")
        made = {key: value for key, value in given.items() if key not in _GRAPH_ONLY and value is not None}
        if isinstance(classes := made.get("architectures"), list) and classes:
            made["architectures"] = classes[0]
        if made.get("hidden_act") == "swiglu":
            made |= {"hidden_act": "silu", "gated_linear_unit": True}
            self.items.append(
                changed(
                    self.place("model.model_config.hidden_act"),
                    phrase("swiglu becomes silu with gated_linear_unit: PyNative models do not take it by that name"),
                )
            )
        kind = made.get("model_type")
        if kind not in _MODELS:
            self.items.append(
                lost(
                    self.place("model.model_config"),
                    phrase(
                        "mindformers has no PyNative model of this kind, but of {names}", names=joined(", ", _MODELS)
                    ),
                    phrase("graph mode is there up to MindSpore 2.11"),
                )
            )
        if folder := self._values.get("pretrained_model_dir"):
            self.items.append(
                lost(
                    self.place("pretrained_model_dir"),
                    phrase("PyNative training reads the model from the YAML alone, not from {folder}", folder=folder),
                    phrase("write what its config.json says into `model`"),
                )
            )
        return made

    def context(self) -> Plain:
        given = self.section("context")
        return {"mode": 1, **{key: given[key] for key in ("device_target", "max_device_memory") if key in given}}

    def callbacks(self) -> None:
        if others := [str(one.get("type")) for one in self._callbacks() if one.get("type") not in _KNOWN_CALLBACKS]:
            self.items.append(
                to_check(
                    self.place("callbacks"),
                    phrase("not carried over: {keys}", keys=joined(", ", others)),
                    phrase("add those that mindformers has in PyNative mode"),
                )
            )

    def _callbacks(self) -> list[Plain]:
        given = self._values.get("callbacks")
        return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
