"""Random templates, networks and configs."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from swapconf.config.config import (
    Config,
    DefaultSwap,
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.models.network import LayerTemplate, Network, Operator
from swapconf.words.findings import Origin
from tests.unit.networks import config, network

NOWHERE = Origin(file="law.yaml")
NAMES = ("add", "attention", "wq", "wk", "flash_attention", "matmul", "feed_forward", "norm", "mul")

prefetches = st.integers(1, 50)
# strategies are made once: to make one takes longer than to draw from it
_BOOLEANS = st.booleans()
_PRESETS = st.sampled_from([None, None, None, True, False])
_PRIMITIVES = st.sampled_from(["MatMul", "FlashAttentionScore"])
_SIBLINGS = st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4)


_Drawn = TypeVar("_Drawn")


@cache
def rows_of(items: st.SearchStrategy[_Drawn], count: int) -> st.SearchStrategy[list[_Drawn]]:
    """Lists of so many. ``items`` is one that is kept, too."""
    return st.lists(items, min_size=count, max_size=count)


@cache
def numbers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@cache
def places_in(count: int, max_size: int) -> st.SearchStrategy[list[int]]:
    """Some places in a list of so many, in order."""
    return st.sets(st.integers(0, count - 1), max_size=max_size).map(sorted)


@st.composite
def templates(draw: st.DrawFn) -> LayerTemplate:
    """A tree of at most three levels, with arbitrary consumers and presets."""
    operators: list[Operator] = []

    def grow(prefix: str, depth: int) -> None:
        for name in draw(_SIBLINGS):
            path = f"{prefix}{name}"
            if depth < 3 and draw(_BOOLEANS):
                operators.append(Operator(path=path, kind="cell", type="Cell"))
                grow(f"{path}.", depth + 1)
            else:
                operators.append(
                    Operator(
                        path=path,
                        kind="primitive",
                        type=draw(_PRIMITIVES),
                        executed=True,
                        saved=draw(_BOOLEANS),
                        preset_recompute=draw(_PRESETS),
                    )
                )

    grow("", 1)
    paths = [operator.path for operator in operators if operator.kind == "primitive"]
    consumers = st.lists(st.sampled_from(paths), max_size=2, unique=True).map(tuple) if paths else st.just(())
    linked = [
        Operator(
            path=o.path,
            kind=o.kind,
            type=o.type,
            executed=o.executed,
            saved=o.saved,
            preset_recompute=o.preset_recompute,
            consumers=draw(consumers),
        )
        if o.kind == "primitive"
        else o
        for o in operators
    ]
    return LayerTemplate(name="law", cell="LawLayer", operators=tuple(linked))


_NUM_LAYERS, _TEMPLATES = st.integers(1, 6), templates()


@st.composite
def networks(draw: st.DrawFn) -> Network:
    return network(draw(_NUM_LAYERS), draw(_TEMPLATES))


patterns = st.lists(st.sampled_from([*NAMES, ".*", "w.", "(attention|norm)", "flash_.*"]), min_size=1, max_size=3).map(
    r"\.".join
)


@cache
def selections(*, counted: bool = False) -> st.SearchStrategy[LayerSelection]:
    chosen: st.SearchStrategy[LayerSelection]
    if counted:
        rows = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3).map(tuple)
        chosen = st.one_of(
            rows.map(lambda row: LayerCounts(counts=(row,), per_interleave=False)),
            st.lists(rows, min_size=1, max_size=2).map(
                lambda all_rows: LayerCounts(counts=tuple(all_rows), per_interleave=True)
            ),
        )
    else:
        chosen = st.lists(st.integers(0, 7), max_size=4).map(lambda indices: LayerIndices(tuple(indices)))
    return st.one_of(st.just(EveryLayer()), chosen)


def places(name: str) -> dict[str, Any]:
    return dict.fromkeys(("origin", "layers_origin", "prefetch_origin"), Origin(file="law.yaml", path=name))


@cache
def swaps(names: st.SearchStrategy[str] = patterns) -> st.SearchStrategy[Swap]:
    layer = st.builds(
        lambda layers, prefetch: LayerSwap(layers=layers, prefetch=prefetch, **places("layer")),
        selections(),
        prefetches,
    )
    op = st.builds(
        lambda name, layers, prefetch: OpSwap(pattern=name, layers=layers, prefetch=prefetch, **places(name)),
        names,
        selections(),
        prefetches,
    )
    listed = st.builds(
        lambda layer_swap, op_swap: ListedSwap(
            layer_swap=tuple(layer_swap), op_swap=tuple(op_swap), given_entries=len(layer_swap) + len(op_swap)
        ),
        st.lists(layer, max_size=3),
        st.lists(op, max_size=4),
    )
    default = st.builds(lambda prefetch: DefaultSwap(prefetch=prefetch, origin=NOWHERE), prefetches)
    return st.one_of(st.just(SwapOff()), default, listed)


@cache
def recomputes(*, counted: bool, names: st.SearchStrategy[str] = patterns) -> st.SearchStrategy[RecomputeConfig]:
    layers = selections(counted=counted)
    named = st.dictionaries(names, layers, max_size=3).map(
        lambda chosen: tuple(
            SelectRecompute(pattern=name, layers=where, origin=Origin(file="law.yaml", path=name))
            for name, where in chosen.items()
        )
    )
    full = st.one_of(st.none(), st.builds(FullRecompute, layers=layers, origin=st.just(NOWHERE)))
    return st.builds(
        RecomputeConfig,
        full=full,
        select=named,
        select_comm=named,
        select_exclude=named,
        select_comm_exclude=named,
        mp_comm_recompute=st.booleans(),
        recompute_slice_activation=st.booleans(),
        parallel_optimizer_comm_recompute=st.booleans(),
    )


@st.composite
def configs(draw: st.DrawFn, num_layers: int = 4, names: st.SearchStrategy[str] = patterns) -> Config:
    swap = draw(swaps(names))
    return config(num_layers, swap=swap, recompute=draw(recomputes(counted=isinstance(swap, SwapOff), names=names)))
