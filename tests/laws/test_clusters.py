"""What holds for every graph that the pass which chooses fused kernels is run on."""

from __future__ import annotations

from graphlib import TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from swapconf.whatif.passes.cluster import grown

Graph = tuple[list[list[int]], list[bool]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """What each node reads of those before it, and which can be fused."""
    count = draw(st.integers(2, 30))
    read = [draw(st.lists(st.integers(0, node - 1), max_size=3)) if node else [] for node in range(count)]
    return read, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@given(graphs())
def test_each_node_is_in_one_cluster_and_none_waits_for_itself(graph: Graph) -> None:
    read, can = graph
    clusters = grown(read, can, [False] * len(read))
    of = {node: number for number, cluster in enumerate(clusters) for node in cluster}
    assert sorted(node for cluster in clusters for node in cluster) == list(range(len(read)))
    waits = {
        number: {of[one] for node in cluster for one in read[node]} - {number}
        for number, cluster in enumerate(clusters)
    }
    TopologicalSorter(waits).prepare()  # raises CycleError
    assert all(can[node] for cluster in clusters if len(cluster) > 1 for node in cluster)
