"""The seams of mindformers where swapconf takes the place of LayerSetting [mindspore, mindformers; both lazily].

Nothing of mindformers is edited: names are replaced in its modules as they are imported (wrapt's post-import hooks), so
installing costs nothing until a training script imports mindformers. All of them are replaced or, where `seams` finds
one missing, none. What is decided comes from an Advisor; this file only knows where to ask and how to do it. Every seam
names the behaviour of mindformers 1.9.0 that makes it necessary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from swapconf.decide.edits import Edit
from swapconf.models.network import LayerTemplate
from swapconf.train import seam_hooks
from swapconf.train.cells import LayerReader, apply
from swapconf.train.own import Owners
from swapconf.train.replacing import replace_everywhere
from swapconf.upstream import seams


@dataclass(frozen=True, slots=True)
class LayerOrder:
    """What is to be done with one real layer, and the lines to log."""

    pipeline_stage: int
    pipeline_segment: int | None
    comm_fusion: int
    edits: tuple[Edit, ...]
    lines: tuple[str, ...]


class Planner(Protocol):
    """Plans the layers of one block of a model. ``lines``: to log, of all layers together."""

    @property
    def lines(self) -> tuple[str, ...]: ...

    def order(self, index: int, template: LayerTemplate) -> LayerOrder: ...


class Advisor(Protocol):
    """Decides; knows nothing of mindspore."""

    def review(self, config: Mapping[str, Any]) -> None:
        """A complete training config, before any model is built. Raises SwapconfError when it has errors."""

    def planner(self, block: Mapping[str, Any]) -> Planner:
        """The planner for the layers of a block, from what mindformers passes to LayerSetting."""

    def wants_lazy_inline(self) -> bool:
        """Whether the reviewed config swaps, so that lazy inline has to stay on."""


def install(advisor: Advisor) -> None:
    """Put swapconf in place of mindformers' LayerSetting, now or as soon as mindformers is imported.

    Where the installed mindformers lacks a seam, nothing is replaced, and stderr says so.
    """
    complete = cache(seams.complete_or_told)
    patches = (
        (seams.LAYER_SETTING, _take_layer_setting),
        (seams.SWAP_CONFIG, _keep_swap_config_raw),
        (seams.PARALLEL_CONFIG, _review_configs),
        (seams.CHECK_RULES, _drop_checks),
        (seams.BASE_TRAINER, _keep_lazy_inline),
    )
    seam_hooks.register(patches, advisor, complete)


# --- LayerSetting: pipeline stage, fusion, recompute and swap of each layer ---------------------------------------


def _take_layer_setting(module: Any, advisor: Advisor) -> None:
    original: Any = module.LayerSetting
    owners = Owners()

    class LayerSetting(original):  # type: ignore[misc]  # a subclass, for isinstance and static helpers
        """swapconf's: the same call, decided by swapconf."""

        def __init__(
            self,
            num_layers: int,
            offset: Any,
            parallel_config: Any,
            pp_interleave_num: int = 1,
            start_stage: int = 0,
            stage_num: int = 0,
        ) -> None:
            self._reader = LayerReader(owners)
            self._planner = advisor.planner(
                _block(num_layers, offset, parallel_config, pp_interleave_num, start_stage, stage_num)
            )
            for line in self._planner.lines:
                _log(line)

        def __call__(self, layer: Any, layer_id: int) -> None:
            perform(self._planner.order(layer_id, self._reader.read(layer)), layer)

    replace_everywhere("LayerSetting", original, LayerSetting)


def perform(order: LayerOrder, layer: Any) -> None:
    """Do what an order says to a real layer, and log it through mindformers' logger."""
    layer.pipeline_stage = order.pipeline_stage
    if order.pipeline_segment is not None:
        layer.pipeline_segment = order.pipeline_segment
    layer.set_comm_fusion(order.comm_fusion)
    apply(layer, order.edits)
    for line in order.lines:
        _log(line)


def _log(line: str) -> None:
    from mindformers.tools.logger import logger

    logger.info(line)


def _block(
    num_layers: int, offset: Any, parallel_config: Any, pp_interleave_num: int, start_stage: int, stage_num: int
) -> dict[str, Any]:
    """What LayerSetting is given, as plain values under the names of a training YAML."""
    from mindspore import get_auto_parallel_context

    legacy = hasattr(parallel_config, "swap")
    stages = parallel_config.pipeline_stage if legacy else parallel_config.pipeline_model_parallel_size
    return {
        "use_legacy": legacy,
        "parallel_config": {
            "pipeline_stage": stage_num or stages,
            "gradient_aggregation_group": parallel_config.gradient_aggregation_group,
        },
        "parallel": {
            "pipeline_config": {
                "pipeline_interleave": bool(get_auto_parallel_context("pipeline_interleave")),
                "pipeline_scheduler": get_auto_parallel_context("pipeline_scheduler"),
            }
        },
        "model": {
            "model_config": {
                "num_layers": num_layers,
                "offset": _plain(offset),
                "pp_interleave_num": pp_interleave_num or 1,
                "start_stage": start_stage,
            }
        },
        **(_legacy_sections(parallel_config) if legacy else _mcore_sections(parallel_config)),
    }


def _legacy_sections(parallel_config: Any) -> dict[str, Any]:
    recompute = parallel_config.recompute
    return {
        "swap_config": plain_swap(parallel_config.swap),
        "recompute_config": {"recompute": recompute} if isinstance(recompute, bool) else recompute.to_dict(),
    }


def _mcore_sections(config: Any) -> dict[str, Any]:
    recompute = {
        name: getattr(config, name)
        for name in (
            "recompute",
            "select_recompute",
            "select_comm_recompute",
            "select_recompute_exclude",
            "select_comm_recompute_exclude",
            "mp_comm_recompute",
            "recompute_slice_activation",
            "parallel_optimizer_comm_recompute",
        )
    }
    swap = {
        "swap": config.cpu_offloading,
        "layer_swap": config.cpu_offloading_num_layers,
        "op_swap": config.op_swap,
        "default_prefetch": config.default_prefetch,
    }
    return {
        "swap_config": swap,
        "recompute_config": {key: value for key, value in recompute.items() if value is not None},
    }


def plain_swap(swap: Any) -> dict[str, Any]:
    """The swap section that a TransformerSwapConfig (or a plain mapping) stands for.

    One that was made before swapconf was installed holds ``op_swap`` grouped by name; that is undone.
    """
    section = dict(swap) if isinstance(swap, Mapping) else swap.to_dict()
    operators = section.get("op_swap")
    if isinstance(operators, Mapping) and "op_name" not in operators:
        section["op_swap"] = [{"op_name": name, **entry} for name, entries in operators.items() for entry in entries]
    return section


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


# --- TransformerSwapConfig: its constructor refuses documented forms and names the wrong key ----------------------


def _keep_swap_config_raw(module: Any, _advisor: Advisor) -> None:
    def keep(_self: Any, layer_swap: Any, op_swap: Any) -> tuple[Any, Any]:
        return layer_swap, op_swap

    module.TransformerSwapConfig._initialize_swap = keep


# --- build_parallel_config: the last place before a model is built where the whole config is known -----------------


def _review_configs(module: Any, advisor: Advisor) -> None:
    original = module.build_parallel_config

    def build_parallel_config(config: Any) -> Any:
        if isinstance(config, Mapping):
            advisor.review(_whole(config))
        return original(config)

    replace_everywhere("build_parallel_config", original, build_parallel_config)


def _whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """A plain copy of a MindFormerConfig; sections that are objects already are turned back."""
    plain = {key: _copy(value) for key, value in config.items()}
    for name in ("recompute_config", "parallel_config"):
        if hasattr(config.get(name), "to_dict") and not isinstance(config.get(name), Mapping):
            plain[name] = _copy(config[name].to_dict())
            if name == "parallel_config":
                plain[name].pop("recompute", None)  # mindformers' copy of recompute_config; no YAML has it there
    if config.get("swap_config") is not None:
        plain["swap_config"] = _copy(plain_swap(config["swap_config"]))
    return plain


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


# --- check_rules: says the same as swapconf's rules, less, and refuses documented forms -----------------------------


def _drop_checks(module: Any, _advisor: Advisor) -> None:
    def nothing(_config: Any) -> None:
        """swapconf has checked these sections before."""

    module._check_swap = nothing
    module._check_recompute = nothing


# --- lazy inline: BaseTrainer turns it off for pipeline_stage 1 without gradient accumulation, which voids swap -----


def _keep_lazy_inline(module: Any, advisor: Advisor) -> None:
    original = module.BaseTrainer._check_grad_accumulation_steps

    def check(self: Any) -> None:
        settings = self.config.model.model_config
        asked = settings.get("disable_lazy_inline")
        original(self)
        turned_off = not asked and settings.get("disable_lazy_inline")
        if turned_off and advisor.wants_lazy_inline() and _lazy_inline_possible():
            settings["disable_lazy_inline"] = False
            _log("swapconf keeps lazy inline on: swap needs it (ENABLE_LAZY_INLINE_NO_PIPELINE=1)")

    module.BaseTrainer._check_grad_accumulation_steps = check


def _lazy_inline_possible() -> bool:
    """mindformers has none in stand-alone mode; MindSpore 2.9.0 cannot compile it for the CPU (segment_runner.cc)."""
    from mindspore import get_auto_parallel_context, get_context

    parallel_mode = get_auto_parallel_context("parallel_mode")
    return bool(get_context("device_target") == "Ascend" and parallel_mode != "stand_alone")
