"""SEED -> SHAPES and STRATEGIES of PyNative models, in which activations set the peak of memory.

Sequences are long, weights and vocabularies small. Paths of modules are those that a trace of the shape has marked, of
every layer; they are asked for as they are, and as regular expressions that mean several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

MODELS = ("qwen3", "deepseek_v3")  # configs/pynative
COMPRESSED = "deepseek_v4"  # its layers attend to all tokens, or to some of them and to groups of 4 or 128
KINDS = ("full", "select", "swap", "full swap", "select swap", "full select")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """``settings``: dotted key -> value, over the YAML of the model. ``num_layers``: with those of multi-token
    prediction. ``num_batches``: micro-batches in a step."""

    model: str
    settings: Mapping[str, object]
    num_layers: int
    num_batches: int

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(f"{key}={value}" for key, value in self.settings.items())

    @property
    def text(self) -> str:
        told = {key.rpartition(".")[2]: value for key, value in self.settings.items()}
        batches = f"{self.num_batches} of " if self.num_batches > 1 else ""
        return (
            f"{self.model}, {self.num_layers} layers, hidden {told['hidden_size']}, "
            f"{batches}{told['local_batch_size']} x {told['seq_length']}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """``recompute``, ``swap``: the sections as ``--set`` takes them, "" for none."""

    kind: str
    recompute: str = ""
    swap: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(f"{key}={value}" for key, value in (("recompute", self.recompute), ("swap", self.swap)) if value)


def shape(rng: Random, model: str) -> Shape:
    batch, batches = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    settings: dict[str, object] = {
        "training.local_batch_size": batch,
        "training.global_batch_size": batch * batches,
        "train_dataset.dataloader.config.seq_length": (length := rng.choice([1024, 1536, 2048, 3072])),
        "model.seq_length": length,
        "model.max_position_embeddings": length,
        "model.vocab_size": rng.choice([256, 384, 512]),
        "model.compute_dtype": rng.choice(["bfloat16", "bfloat16", "float16"]),
        "model.params_dtype": rng.choice(["float32", "bfloat16"]),
    }
    made, extra = {"qwen3": _qwen, "deepseek_v3": _deepseek, COMPRESSED: _compressed}[model](rng)
    layers = made["num_hidden_layers"]
    assert isinstance(layers, int)
    return Shape(
        model=model,
        settings={**settings, **{f"model.{key}": value for key, value in made.items()}},
        num_layers=layers + extra,
        num_batches=batches,
    )


def _qwen(rng: Random) -> tuple[dict[str, object], int]:
    heads, head = rng.choice([2, 4, 8]), rng.choice([16, 32])
    return {
        "num_hidden_layers": rng.randint(2, 6),
        "hidden_size": rng.choice([64, 96, 128, 192]),
        "intermediate_size": rng.choice([128, 256, 512]),
        "num_attention_heads": heads,
        "num_key_value_heads": rng.choice([heads, heads // 2]),
        "head_dim": head,
    }, 0


def _deepseek(rng: Random) -> tuple[dict[str, object], int]:
    extra, experts = rng.choice([0, 1]), rng.choice([4, 8])
    return {
        "num_hidden_layers": rng.randint(2, 4),
        "num_nextn_predict_layers": extra,
        "first_k_dense_replace": rng.choice([0, 1, 2]),
        "hidden_size": rng.choice([64, 128]),
        "intermediate_size": rng.choice([128, 256]),
        "num_attention_heads": rng.choice([2, 4]),
        "q_lora_rank": rng.choice([32, 64]),
        "kv_lora_rank": rng.choice([32, 64]),
        "n_routed_experts": experts,
        "n_group": 2,
        "topk_group": 1,
        "num_experts_per_tok": rng.choice([1, 2]),
        "moe_intermediate_size": rng.choice([64, 128]),
        "moe_shared_expert_intermediate_size": rng.choice([64, 128]),
    }, extra


def _compressed(rng: Random) -> tuple[dict[str, object], int]:
    layers, extra = rng.randint(4, 6), 1
    ratios = [0, 4, 128, *(rng.choice([0, 4, 128]) for _ in range(layers - 3)), 0]
    return {
        "num_hidden_layers": layers,
        "num_nextn_predict_layers": extra,
        "compress_ratios": ratios,
        "num_hash_layers": rng.choice([0, 1, 2]),
        "hidden_size": rng.choice([128, 256]),
        "n_routed_experts": rng.choice([4, 8]),
        "num_experts_per_tok": rng.choice([1, 2]),
        "moe_intermediate_size": rng.choice([64, 128]),
    }, extra


def strategy(rng: Random, shape: Shape, kind: str, paths: Mapping[int, Sequence[str]]) -> Strategy:
    """``paths``: of the modules of each layer of the rank that is looked at. Swapped layers are none that are
    recomputed: which of the two holds is not known (`pynative-overlap`)."""
    parts, count = kind.split(), shape.num_layers
    prefetch = rng.randint(1, max(1, min(3, count - 1)))
    swapped = _some(rng, range(count - prefetch)) if "swap" in parts else frozenset[int]()
    left = [layer for layer in range(count) if layer not in swapped] or [count - 1]
    recompute = ""
    if "full" in parts:
        full = _some(rng, left)
        recompute = f"{{mode: full, full_recompute_layer: {_ranges(full)}}}"
    if "select" in parts:
        patterns = dict.fromkeys(_pattern(rng, left, paths) for _ in range(rng.choice([1, 2, 3])))
        chosen = ", ".join(f"'{pattern}': {_ranges(_some(rng, left))}" for pattern in patterns)
        also = f"full_recompute_layer: {_ranges(full)}, " if "full" in parts else ""
        recompute = f"{{mode: select, {also}select_module: {{{chosen}}}}}"
    if swapped:
        swap = f"{{enable: True, default_prefetch: {prefetch}, layer_swap: [{{layers: {_ranges(swapped)}}}]}}"
        return Strategy(kind=kind, recompute=recompute, swap=swap)
    return Strategy(kind=kind, recompute=recompute)


def _some(rng: Random, layers: Sequence[int]) -> frozenset[int]:
    chosen = frozenset(layer for layer in layers if rng.random() < 0.65)
    return chosen or frozenset({rng.choice(list(layers))})


def _ranges(layers: frozenset[int]) -> str:
    """As a YAML lists them: ['0-2', '4']."""
    found: list[list[int]] = []
    for layer in sorted(layers):
        if found and layer == found[-1][1] + 1:
            found[-1][1] = layer
        else:
            found.append([layer, layer])
    return "[" + ", ".join(f"'{low}'" if low == high else f"'{low}-{high}'" for low, high in found) + "]"


def _pattern(rng: Random, layers: Sequence[int], paths: Mapping[int, Sequence[str]]) -> str:
    here = [layer for layer in layers if layer in paths] or sorted(paths)
    path = rng.choice(sorted(paths[rng.choice(here)]))
    last = path.rpartition(".")[2]
    return rng.choice([path, path, f".*{last}", f".*{last.rpartition('_')[2]}"])
