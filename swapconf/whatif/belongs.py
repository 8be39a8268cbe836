"""STUDY + TRACE -> REASON: why a trace is not one of the model, shape and layout of a YAML.

``swapconf dryrun --keep`` records the settings of its run beside the trace; these are compared key by key. A trace that
has no record shows the cells of its layers, the size of their norms and what its attention works on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from swapconf.config import yaml_config
from swapconf.config.config import Config
from swapconf.config.dialects import MCORE_SWAP_KEYS, RECOMPUTE_KEYS, RECOMPUTES
from swapconf.config.nodes import from_plain, nowhere
from swapconf.decide.expand import expand
from swapconf.models.cells import LAYERS
from swapconf.models.network import Network
from swapconf.study.study import Study
from swapconf.trace.trace import Task, Trace
from swapconf.upstream.scopes import place_of
from swapconf.words.phrases import joined, phrase

_SHOWN = 4
# sections that shape what a rank computes and holds; of some only these keys
_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "model": (),
    "model_config": (),
    "parallel": (),
    "parallel_config": (),
    "parallelism": (),
    "training": ("local_batch_size", "global_batch_size", "gradient_accumulation_steps"),
    "moe_config": (),
    "optimizer": (),
    "runner_wrapper": (),
    "use_legacy": (),
    "micro_batch_interleave_num": (),
    "runner_config": ("batch_size", "gradient_accumulation_steps"),
    "context": ("mode", "jit_config", "jit_level", "memory_optimize_level", "device_target"),
}
# what decides about swap and recompute, which a what-if is there to change, and what only names files
_LEFT_OUT = frozenset(
    (
        *RECOMPUTE_KEYS,
        *(name for names in MCORE_SWAP_KEYS.values() for name in names),
        "checkpoint_name_or_path",
        "strategy_ckpt_save_file",
        "strategy_ckpt_config",
        "learning_rate",
        "lr_schedule",
    )
)
_HEADS = ("num_attention_heads", "num_heads", "n_head")
_NORMS = ("RmsNorm", "LayerNorm")
_LEAST_KNOWN = 0.5  # of the cells in its layers; those of another family have hardly one name in common


def other_run(study: Study, trace: Trace, recorded: Mapping[str, Any]) -> str:
    """Why the trace is of another model, shape or layout than the YAML; "" where nothing speaks against it.

    ``recorded``: the settings of the run that left the trace, empty where they are not known.
    """
    if recorded:
        return _keys(study, recorded)
    if study.network is None or not study.network.is_known:
        return ""
    return _cells(study.network, trace) or _shapes(study.config, trace)


def recomputes(study: Study, recorded: Mapping[str, Any]) -> bool:
    """Whether the run that left a trace was asked to recompute something. ``recorded``: as in `other_run`."""
    if not recorded or study.network is None:
        return False
    document = from_plain(recorded, nowhere(study.config.file))
    config, _ = yaml_config.from_document(document, mindformers=study.versions.mindformers)
    plans = {entry.plan for entry in expand(config, study.network, study.versions).layers}
    return any(outcome.sites and outcome.request.kind in RECOMPUTES for plan in plans for outcome in plan.outcomes)


def _keys(study: Study, recorded: Mapping[str, Any]) -> str:
    settings: Any = study.document.root.plain()
    asked, ran = dict(_leaves(settings)), dict(_leaves(recorded))
    differing = [path for path in dict.fromkeys((*asked, *ran)) if asked.get(path) != ran.get(path)]
    if not differing:
        return ""
    differences = [
        phrase("{path} {recorded} (here {asked})", path=path, recorded=ran.get(path), asked=asked.get(path))
        for path in differing[:_SHOWN]
    ]
    if len(differing) > _SHOWN:
        differences.append(phrase("{count} more", count=len(differing) - _SHOWN))
    return phrase(
        "the trace is of another run than {file}: {differences}",
        file=study.document.file,
        differences=joined(", ", differences),
    )


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of all that matters; what is None, False, 0 or empty counts as not given."""
    for name, keys in _SECTIONS.items():
        section = settings.get(name)
        if keys:
            section = {key: section.get(key) for key in keys} if isinstance(section, dict) else None
        yield from _below(name, section)


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _LEFT_OUT:
                yield from _below(f"{path}.{key}", item)
    elif value:
        yield path, value


def _cells(network: Network, trace: Trace) -> str:
    """Whether the layers of the trace are made of other cells."""
    catalogued = {operator.path for template in network.templates for operator in template.operators}
    places = (place_of(scope, network.num_layers) for scope in {kernel.scope for kernel in trace.step})
    cells = {place.cell for place in places if place.layer and place.cell}
    if not cells or len(cells & catalogued) >= _LEAST_KNOWN * len(cells):
        return ""
    strange = sorted(cells - catalogued)[:_SHOWN]
    return phrase(
        "the operators of the trace are not those of a {family} model: it has {cells}",
        family=network.label,
        cells=", ".join(strange),
    )


def _shapes(config: Config, trace: Trace) -> str:
    hidden = config.model.settings.get("hidden_size")
    sizes = {
        task.input_tensors[1].shape
        for task in _in_layers(trace)
        if task.primitive in _NORMS and len(task.input_tensors) > 1
    }
    if isinstance(hidden, int) and sizes and (hidden,) not in sizes:
        return phrase(
            "the norms of the trace work on {sizes} elements, and the model of {file} has hidden_size {hidden}",
            sizes=_listed(size[-1] for size in sizes if size),
            file=config.file,
            hidden=hidden,
        )
    wanted = _attention_elements(config)
    shapes = {
        prod(task.input_tensors[0].shape)
        for task in _in_layers(trace)
        if task.primitive == "FlashAttentionScore" and task.input_tensors
    }
    if wanted is not None and shapes and wanted not in shapes:
        return phrase(
            "a query of the trace's attention has {found} elements, and with {file} it has {wanted} "
            "(batch_size, seq_length, heads, model_parallel)",
            found=_listed(shapes),
            file=config.file,
            wanted=wanted,
        )
    return ""


def _in_layers(trace: Trace) -> Iterator[Task]:
    return (task for task in trace.tasks if f"{LAYERS}/" in task.name)


def _attention_elements(config: Config) -> int | None:
    """Elements of a rank's query; None where the YAML does not tell, or compresses it first (MLA)."""
    settings, layout = config.model.settings, config.pipeline
    length = settings.get("seq_length") or settings.get("max_position_embeddings")
    heads = next((settings[name] for name in _HEADS if settings.get(name)), None)
    hidden, batch = settings.get("hidden_size"), config.runtime.batch_size or settings.get("batch_size")
    size = settings.get("head_dim") or (hidden // heads if isinstance(hidden, int) and isinstance(heads, int) else None)
    numbers = [number for number in (batch, length, heads, size) if isinstance(number, int)]
    if len(numbers) < 4 or settings.get("kv_lora_rank"):
        return None
    return prod(numbers) // (layout.model_parallel * layout.context_parallel)


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, sorted(set(numbers))))
