"""CASE -> LAYOUT: how a training of graph mode shares out its batch, tensors, layers and experts, as far as it is told.

Nothing is where mindformers 1.9.0 sets all degrees to 1: outside of the (semi-)automatic parallel modes
(``_check_global_batch_size_for_auto_parallel``, trainer/base_trainer.py:287). ``use_parallel`` is False where it is not
given, ``parallel_mode`` semi-automatic (tools/register/template.py:240, :410).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from swapconf.config.config import Config
from swapconf.decide.rules.case import Case
from swapconf.models import catalog
from swapconf.models.network import Network
from swapconf.upstream.conditional import DATA, EXPERTS, SEQUENCE_PARTS
from swapconf.upstream.versions import reached
from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase

READ_SINCE = "1.7.0"  # the first mindformers whose checks of mcore models and of the batch were read
MICRO_BATCHES = "parallel_config.micro_batch_num"
HEADS, KV_HEADS = ("num_heads", "num_attention_heads", "n_head"), ("n_kv_heads", "num_key_value_heads")
ALGORITHM = "parallel_config.context_parallel_algo"
ULYSSES_DEGREE = "parallel_config.ulysses_degree_in_cp"
EXPERT_LAYER = "moe"  # the template of a layer with experts
_SEMI, _AUTO = (1, "SEMI_AUTO_PARALLEL", None), (2, "AUTO_PARALLEL")  # mindformers' tools/utils.py; None: not given
_COLOSSAL, _ULYSSES, _HYBRID = "colossalai_cp", "ulysses_cp", "hybrid_cp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Into how many parts each is cut. None: what is given is no such number.

    ``by_hand``: the model cuts its operators itself, as in semi-automatic mode. ``ulysses``: how many ranks of the
    context share out the heads of attention.
    """

    by_hand: bool
    tensors: int
    contexts: int
    ulysses: int | None
    data: int | None
    experts: int | None


class Sized(NamedTuple):
    """A size of the model, the key that tells it and where it stands. ``is_default``: the key is not given."""

    value: int
    key: str
    origin: Origin
    is_default: bool = False

    @property
    def told(self) -> str:
        told = f"`{self.key}: {self.value}`"
        return phrase("{told} (by default)", told=told) if self.is_default else told


def layout_of(config: Config) -> Layout | None:
    """None where nothing is shared out, or nobody knows."""
    given = config.given
    mode = given.get("parallel.parallel_mode")
    if given.get("use_parallel") is not True or config.mode_without_gradient or isinstance(mode, bool):
        return None
    if mode not in (*_SEMI, *_AUTO):
        return None
    return Layout(
        by_hand=mode in _SEMI,
        tensors=config.pipeline.model_parallel,
        contexts=config.pipeline.context_parallel,
        ulysses=_ulysses(config),
        data=_number(given, *DATA),
        experts=_number(given, *EXPERTS),
    )


def layout_of_mcore(case: Case) -> Layout | None:
    """The same of an mcore model of the catalog, whose checks by the mindformers in use were read."""
    is_known = case.network is not None and case.network.family is not None
    if case.config.model.legacy or not is_known or not reached(case.versions.mindformers, READ_SINCE):
        return None
    return layout_of(case.config)


def sequence_parts(config: Config, network: Network | None) -> int:
    """For how many parts of a sequence the layers of a legacy Llama are built, 1 for whole ones: as soon as there is to
    be more than one, though the trainer makes them with stages alone (mindformers 1.9.0, models/llama/llama.py:117)."""
    parts = config.given.get(SEQUENCE_PARTS)
    is_llama = config.model.legacy and network is not None and network.family == "llama"
    if not is_llama or not isinstance(parts, int) or config.mode_without_gradient:
        return 1
    return max(parts, 1)


def heads_fit(case: Case, layout: Layout) -> bool:
    """Whether the ranks of tensors can share out the heads; else their number is wrong, whatever follows from it."""
    heads = (size_of_model(case, *names) for names in (("heads", *HEADS), ("kv_heads", *KV_HEADS)))
    return all(one is None or one.value % layout.tensors == 0 for one in heads)


def refused_algorithm(config: Config, mindformers: str) -> str:
    """The algorithm of context parallelism that mindformers stops at, "" for none; see the rule context-parallel."""
    name = config.given.get(ALGORITHM)
    taken = (_COLOSSAL, _ULYSSES, *[_HYBRID] * config.model.legacy)
    if not isinstance(name, str) or name in ("", *taken) or layout_of(config) is None:
        return ""
    return name if reached(mindformers, READ_SINCE) else ""


def size(config: Config, *names: str) -> Sized | None:
    """The first of these keys of ``model_config`` that is given; None where none is, or not as a number."""
    settings = config.model.settings
    name = next((name for name in names if settings.get(name) is not None), None)
    value = settings[name] if name is not None else None
    if name is None or not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return None
    return Sized(value, name, config.origin(f"model.model_config.{name}"))


def size_of_model(case: Case, setting: str, *names: str) -> Sized | None:
    """`size`, or what mindformers takes where none of the keys is given, at the ``model_config``. ``setting``: of
    `models.family.Layout`."""
    model, network = case.config.model, case.network
    given = size(case.config, *names)
    if given is not None or network is None or network.family is None or model.has_unread_folder:
        return given
    told = getattr(catalog.load(network.family, case.versions.mindformers).layout, setting)
    if told is None or not isinstance(told.default, int) or not model.settings.keys().isdisjoint((*names, *told.keys)):
        return None
    return Sized(told.default, told.keys[0], case.config.origin("model.model_config"), is_default=True)


def _ulysses(config: Config) -> int | None:
    """mindformers 1.9.0, TransformerOpParallelConfig.get_ulysses_cp_num (modules/transformer/transformer.py:617)."""
    algorithm = config.given.get(ALGORITHM)
    if algorithm == _HYBRID and config.pipeline.context_parallel > 1:
        return _number(config.given, ULYSSES_DEGREE)
    return config.pipeline.context_parallel if algorithm == _ULYSSES else 1


def _number(given: Mapping[str, object], *paths: str) -> int | None:
    value = next((given[path] for path in paths if given.get(path) is not None), 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
