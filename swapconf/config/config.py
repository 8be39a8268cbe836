"""CONFIG: what a training YAML asks for, as frozen values. Text is parsed into this once, in ``formats``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from swapconf.config.layout import Layout
from swapconf.upstream import dropped
from swapconf.words.findings import Origin

_WITHOUT_GRADIENT = ("predict", "eval")  # run modes

PrefetchUnit: TypeAlias = Literal["operators", "layers"]
Prefetch: TypeAlias = int  # 1 or more, in the unit of the config's dialect; graph mode calls it `backward_prefetch`


class Dialect(Enum):
    """How mindformers spells swap and recompute; a file uses one. Key by key: docs/reference/dialects.md."""

    LEGACY = "legacy"  # swap_config and recompute_config
    MCORE = "mcore"  # the keys of swap_config inside model.model_config, beside recompute_config
    PYNATIVE = "pynative"  # swap, recompute and recompute_comm, mindformers 2.0

    @property
    def prefetch_unit(self) -> PrefetchUnit:
        """What a prefetch counts: operators of the compiled graph, or decoder layers."""
        return "layers" if self is Dialect.PYNATIVE else "operators"


# --- which layers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EveryLayer:
    """``layers: True``."""


@dataclass(frozen=True, slots=True)
class LayerIndices:
    """Global layer indices, as listed (nested lists are flattened). May name layers that do not exist."""

    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """The first so many layers of each stage: ``counts[interleave][stage]``, or one row to be dealt out over the
    interleaves. ``None`` stands for every layer of that stage."""

    counts: tuple[tuple[int | None, ...], ...]
    per_interleave: bool


LayerSelection: TypeAlias = "EveryLayer | LayerIndices | LayerCounts"


# --- swap -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSwap:
    """One entry of ``layer_swap``: every primitive of these layers."""

    layers: LayerSelection
    prefetch: Prefetch
    origin: Origin
    layers_origin: Origin
    prefetch_origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class OpSwap:
    """One name of one entry of ``op_swap``: the operators of these layers that ``pattern`` matches."""

    pattern: str
    layers: LayerSelection
    prefetch: Prefetch
    origin: Origin
    layers_origin: Origin
    prefetch_origin: Origin


@dataclass(frozen=True, slots=True)
class SwapOff:
    """``swap: False``: nothing of the section is in effect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultSwap:
    """``swap: True`` with neither list: the flash attention of every layer."""

    prefetch: Prefetch
    origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSwap:
    """``swap: True`` with ``layer_swap`` or ``op_swap``, which replace the default.

    ``given_entries``: how many entries the YAML has, usable or not. ``unusable``: entries with a mistake, as far as
    they can be read, so that whatever else is wrong with them is told in the same go; they ask for nothing.
    """

    layer_swap: tuple[LayerSwap, ...] = ()
    op_swap: tuple[OpSwap, ...] = ()
    given_entries: int = 0
    unusable: tuple[LayerSwap | OpSwap, ...] = ()


Swap: TypeAlias = "SwapOff | DefaultSwap | ListedSwap"


# --- recompute --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class FullRecompute:
    """``recompute``: whole layers."""

    layers: LayerSelection
    origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectRecompute:
    """One pattern of ``select_recompute``, ``select_comm_recompute`` or one of their ``_exclude`` lists.

    ``builtin``: the pattern is mindformers' default for ``True`` or a bare list, not the user's own.
    """

    pattern: str
    layers: LayerSelection
    origin: Origin
    builtin: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RecomputeConfig:
    """``recompute_config``. The three switches keep mindformers' names and defaults.

    ``unusable``: counts nested for each interleave beside swap, where lists name layers; they ask for nothing.
    ``kept_ops``: ``exclude_op`` of PyNative in mindformers 2.0, parts of the names of operators whose output is kept
    wherever they run; that of 2.1 names paths and layers, and is ``select_exclude``.
    """

    full: FullRecompute | None = None
    select: tuple[SelectRecompute, ...] = ()
    select_comm: tuple[SelectRecompute, ...] = ()
    select_exclude: tuple[SelectRecompute, ...] = ()
    select_comm_exclude: tuple[SelectRecompute, ...] = ()
    mp_comm_recompute: bool = True
    recompute_slice_activation: bool = False
    parallel_optimizer_comm_recompute: bool = False
    kept_ops: tuple[str, ...] = ()
    unusable: tuple[FullRecompute, ...] = ()


# --- the rest of the YAML, as far as resolution needs it ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """How layers are dealt to stages, and their tensors to the ranks of one.

    ``offset[interleave][stage]``: layers more or less than the even share; one row or one number stands for all.
    ``packs_sequences``: a data set that packs several texts into one sequence, with a compressed mask of their ends.
    ``is_one_card``: a PyNative YAML whose batch two ranks cannot share; others do not tell how many there are.
    ``is_told``: the YAML has a section that could say how many stages there are; without one mindformers takes 1.
    """

    num_stages: int = 1
    is_told: bool = True
    num_interleaves: int = 1
    offset: tuple[tuple[int, ...], ...] = ((0,),)
    zero_bubble_v: bool = False
    start_stage: int = 0
    gradient_aggregation_group: int = 1
    model_parallel: int = 1
    context_parallel: int = 1
    sequence_parallel: bool = False
    packs_sequences: bool = False
    is_one_card: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """What decides whether a swap can take effect at all. None: the YAML does not say."""

    device_target: str | None = None
    graph_mode: bool | None = None
    jit_level: str | None = None
    memory_optimize_level: str | None = None
    stand_alone: bool | None = None
    gradient_accumulation_steps: int | None = None
    batch_size: int | None = None
    disable_lazy_inline: bool = False
    max_device_memory: str | None = None
    deterministic: bool | None = None
    optimizer_swap: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """``section``: the YAML's ``model`` as plain values. ``legacy``: False for mcore models (``use_legacy: False``).
    ``num_layers``: decoder layers, None when the YAML does not say. ``num_mtp_layers``: layers for multi-token
    prediction; graph mode gives them the settings of the last decoder layer, PyNative numbers them after it.
    ``moe``: the YAML's ``moe_config``, which mindformers passes on to a legacy model. ``has_unread_folder``: a
    folder is named that the model comes from (``pretrained_model_dir``), and what it says is not known here."""

    legacy: bool = True
    num_layers: int | None = None
    num_mtp_layers: int = 0
    section: Mapping[str, object] = field(default_factory=dict)
    moe: Mapping[str, object] = field(default_factory=dict)
    has_unread_folder: bool = False

    @property
    def settings(self) -> Mapping[str, object]:
        """``model.model_config`` as plain values, with what mindformers adds to it."""
        settings = self.section.get("model_config")
        given = settings if isinstance(settings, dict) else {}
        return {**given, "moe_config": self.moe} if self.moe and self.legacy else given

    def count(self, *names: str) -> int | None:
        """Of a PyNative model, the first of these settings that is a number above 0."""
        found = (self.section.get(name) for name in names)
        return next((one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0), None)

    @property
    def has_sparse_attention(self) -> bool:
        """Of a PyNative model: DeepSeek's sparse or compressed attention, which makes its own masks."""
        variant, kind = self.section.get("experimental_attention_variant"), self.section.get("model_type")
        return variant is not None or kind == "deepseek_v4"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Everything that swapconf reads from one training YAML.

    ``optimizer``: the name of its class, "" for none. ``applied``: keys of `recompute_config` that mindformers drops
    and that count nevertheless (`upstream.dropped`): all, for what a YAML says; in a study, those that were asked for.
    ``origins`` gives the place of a dotted YAML path that a rule may want to point at, ``given`` the values of those
    that mindformers reads beside others only (upstream/conditional.py).
    """

    file: str
    dialect: Dialect = Dialect.LEGACY
    swap: Swap = SwapOff()
    recompute: RecomputeConfig = RecomputeConfig()
    pipeline: Pipeline = Pipeline()
    layout: Layout = field(default_factory=Layout)
    runtime: Runtime = Runtime()
    model: Model = Model()
    optimizer: str = ""
    applied: frozenset[str] = dropped.KEYS
    origins: Mapping[str, Origin] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)

    @property
    def swap_on(self) -> bool:
        return not isinstance(self.swap, SwapOff)

    @property
    def packs_sequences(self) -> bool:
        """Of a PyNative run: several texts are one sequence, with a compressed mask of their ends."""
        return self.pipeline.packs_sequences or self.model.section.get("use_eod_attn_mask_compression") is True

    @property
    def mode_without_gradient(self) -> str:
        """The run mode of a YAML that trains nothing, else ""."""
        mode = self.given.get("run_mode")
        return str(mode) if mode in _WITHOUT_GRADIENT else ""

    @property
    def drops_communication(self) -> bool:
        """Whether `mp_comm_recompute: False` is asked for and dropped, as by mindformers alone."""
        return not self.recompute.mp_comm_recompute and dropped.MP_COMM not in self.applied

    @property
    def drops_slices(self) -> bool:
        """Whether `recompute_slice_activation` is asked for and dropped: beside a list of layers."""
        full = self.recompute.full
        listed = full is None or not isinstance(full.layers, EveryLayer)
        return self.recompute.recompute_slice_activation and listed and dropped.SLICE not in self.applied

    def drops_exclusions(self, of: str) -> bool:
        """Whether the exclusions from a list (`select_recompute`, `select_comm_recompute`) are dropped: beside swap."""
        return self.swap_on and dropped.EXCLUDES[of] not in self.applied

    @property
    def num_named_layers(self) -> int | None:
        """How many layers an index can name, None when the YAML does not say."""
        if self.model.num_layers is None or self.dialect is not Dialect.PYNATIVE:
            return self.model.num_layers
        return self.model.num_layers + self.model.num_mtp_layers

    def origin(self, *paths: str) -> Origin:
        """The place of the first of these paths that the YAML has, else of the file."""
        for path in paths:
            if path in self.origins:
                return self.origins[path]
        return Origin(file=self.file, path=paths[-1] if paths else "")
