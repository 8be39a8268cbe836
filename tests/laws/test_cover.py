"""Names of `layer_swap` and `op_swap`: as few as any, and never more than in the YAML that they came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swapconf.config.config import Config, EveryLayer, LayerIndices, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.compact import compact
from swapconf.decide.cover import Entry, covers
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped, primitives_below
from swapconf.decide.strategy import Action, Keep, Swap
from swapconf.models.network import LayerTemplate, Network
from swapconf.upstream.facts import Versions
from tests.laws.strategies import networks, places
from tests.unit.networks import cell, config, primitive

VERSIONS = Versions(mindspore="2.9.0")
SMALL = LayerTemplate(
    name="small",
    cell="SmallLayer",
    operators=(
        cell("a"),
        primitive("a.one"),
        cell("a.b"),
        primitive("a.b.two"),
        primitive("a.b.three"),
        primitive("four"),
    ),
)
PATHS = tuple(item.path for item in SMALL.primitives)
NAMES: tuple[Entry, ...] = tuple((path, n) for path in ("", *SMALL.by_path) for n in (1, 2))

Kind = tuple[int, ...]  # the prefetch of each primitive, 0 for none


def effect(entries: Sequence[Entry]) -> Kind:
    """What names do to a layer, written from the outside in."""
    found: dict[str, int] = {}
    for path, prefetch in sorted(entries, key=lambda entry: len(entry[0].split(".")) if entry[0] else 0):
        found.update({below.path: prefetch for below in primitives_below(path, SMALL)})
    return tuple(found.get(path, 0) for path in PATHS)


def actions(kind: Kind) -> dict[str, Action]:
    return {path: Swap(prefetch) if prefetch else Keep() for path, prefetch in zip(PATHS, kind, strict=True)}


def reach(names: Sequence[Entry]) -> Iterator[Kind]:
    """What some of these names can do to a layer."""
    for count in range(len(names) + 1):
        for some in combinations(names, count):
            if len({path for path, _ in some}) == count:
                yield effect(some)


def fewest(kinds: set[Kind], most: int) -> int:
    return next(n for n in range(most + 1) if any(kinds <= set(reach(names)) for names in combinations(NAMES, n)))


kinds = st.tuples(*[st.sampled_from([0, 1, 2])] * len(PATHS)) | st.lists(st.sampled_from(NAMES), max_size=3).map(effect)


@given(st.lists(kinds, min_size=1, max_size=6))
def test_names_do_to_each_layer_what_is_wanted(wanted: list[Kind]) -> None:
    found = covers([((SMALL, actions(kind)),) for kind in wanted])
    assert [effect(sorted(entries)) for entries in found] == wanted


@settings(max_examples=40)
@given(st.lists(kinds, min_size=1, max_size=3))
def test_no_fewer_names_would_do(wanted: list[Kind]) -> None:
    found = frozenset[Entry]().union(*covers([((SMALL, actions(kind)),) for kind in wanted]))
    assume(len(found) <= 4)  # what can be searched through
    assert len(found) == fewest(set(wanted), len(found))


def named(net: Network) -> st.SearchStrategy[Config]:
    """A config that names operators by their paths, in any order, and recomputes nothing."""
    indices = st.sets(st.integers(0, net.num_layers - 1)).map(lambda chosen: LayerIndices(tuple(sorted(chosen))))
    layers, prefetch = st.just(EveryLayer()) | indices, st.integers(1, 3)
    paths = st.sampled_from([operator.path for operator in net.layers[0].template.operators])
    whole = st.builds(lambda where, n: LayerSwap(layers=where, prefetch=n, **places("layer")), layers, prefetch)
    op = st.builds(
        lambda path, where, n: OpSwap(pattern=escaped(path), layers=where, prefetch=n, **places(path)),
        paths,
        layers,
        prefetch,
    )
    return st.builds(
        lambda wholes, ops: config(
            net.num_layers,
            swap=ListedSwap(layer_swap=tuple(wholes), op_swap=tuple(ops), given_entries=len(wholes) + len(ops)),
        ),
        st.lists(whole, max_size=2),
        st.lists(op, max_size=5),
    )


@given(networks(), st.data())
def test_there_are_never_more_names_than_there_were(net: Network, data: st.DataObject) -> None:
    given_config = data.draw(named(net))
    again = compact(expand(given_config, net, VERSIONS), config(net.num_layers), VERSIONS)
    assert number_of_names(again) <= number_of_names(given_config)


def number_of_names(cfg: Config) -> int:
    if not isinstance(cfg.swap, ListedSwap):
        return 0
    return len({("", entry.prefetch) for entry in cfg.swap.layer_swap}) + len(
        {(entry.pattern, entry.prefetch) for entry in cfg.swap.op_swap}
    )
