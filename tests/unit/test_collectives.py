"""What collectives take: within a host by its links, between hosts by the network, each step with its latency."""

from __future__ import annotations

import csv
from itertools import pairwise

import pytest

from swapconf.timing import hardware
from swapconf.timing.collectives import PIPELINED_BYTES, PIPELINED_REDUCE_BYTES, Shape, collective_us, shape_of
from swapconf.timing.cost import Hardware
from tests.helpers import ROOT

CARD = hardware.load("ascend_910b2")
LARGE = 2.0**30
PUBLISHED = ROOT / "scripts" / "evidence" / "published" / "ascend_collectives.csv"


def plain(card: Hardware = CARD) -> Hardware:
    """Without latency, at the peak of the links: what is moved alone."""
    for name, value in (("collective_slowdown", 1.0), ("collective_start_us", 1e-3), ("network_latency_us", 1e-3)):
        card = card.having(name, value, "a test")
    return card


def gbps(primitive: str, ranks: range) -> float:
    return LARGE / collective_us(primitive, LARGE, ranks, plain()) / 1000


def test_a_group_uses_a_link_to_each_other_card_of_its_host() -> None:
    link = CARD.value("peer_link_gbps")
    assert gbps("AllGather", range(2)) == pytest.approx(2 * link, rel=1e-3)
    assert gbps("AllGather", range(8)) == pytest.approx(8 * link, rel=1e-3)
    assert gbps("AllReduce", range(8)) == pytest.approx(4 * link, rel=1e-3)
    assert gbps("Send", range(2)) == pytest.approx(link, rel=1e-3)


def test_a_switch_has_one_link_for_all() -> None:
    switched = plain(hardware.load("ascend_910_93"))
    bus = switched.value("peer_link_gbps")
    assert LARGE / collective_us("AllGather", LARGE, range(8), switched) / 1000 == pytest.approx(8 / 7 * bus, rel=1e-3)


def test_two_cards_of_two_hosts_have_the_network() -> None:
    assert gbps("Send", range(0, 16, 8)) == pytest.approx(CARD.value("network_gbps"), rel=1e-3)
    assert gbps("AllGather", range(0, 16, 8)) == pytest.approx(2 * CARD.value("network_gbps"), rel=1e-3)


def test_each_card_of_a_host_sends_its_share_to_the_others() -> None:
    """Through the network of one card goes an eighth of what two hosts of eight exchange, as through that of two cards
    that are the only ones of their hosts goes all."""
    alone, together = (collective_us("AllReduce", LARGE, ranks, plain()) for ranks in (range(0, 16, 8), range(16)))
    assert together == pytest.approx(max(alone / 8, collective_us("AllReduce", LARGE, range(8), plain())), rel=1e-3)


def test_what_is_small_goes_first_through_the_links_and_then_through_the_network() -> None:
    for primitive, least in (("AllGather", PIPELINED_BYTES), ("AllReduce", PIPELINED_REDUCE_BYTES)):
        small, large = (collective_us(primitive, 16 * each, range(16), plain()) for each in (least - 1, least))
        assert small > 1.2 * large


@pytest.mark.parametrize(("primitive", "steps"), [("AllReduce", 14), ("AllGather", 7), ("Send", 1)])
def test_latency_grows_with_the_number_of_hosts_by_doubling(primitive: str, steps: int) -> None:
    card = CARD.having("collective_start_us", 10, "a test").having("network_latency_us", 60, "a test")
    ranks = range(0, 1024, 8) if primitive != "Send" else range(0, 16, 8)
    assert collective_us(primitive, 4.0, ranks, card) == pytest.approx(10 + 60 * steps, rel=1e-3)
    assert collective_us(primitive, 4.0, range(2), card) == pytest.approx(10, rel=1e-3)


def test_from_host_to_host_it_grows_with_each_of_them() -> None:
    card = plain().having("network_latency_us", 1e6, "a test")
    times = [collective_us("AllGather", 8.0 * LARGE, range(8 * hosts), card) for hosts in (1, 2, 3, 5)]
    assert [round((later - first) / 1e6) for first, later in pairwise(times)] == [1, 1, 2]


def test_more_cards_in_a_host_are_never_slower() -> None:
    """At the same size of group."""
    for primitive in ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll"):
        times = [
            collective_us(primitive, LARGE, range(16), CARD.having("cards_per_host", count, "a test"))
            for count in (1, 2, 4, 8)
        ]
        assert all(later <= first for first, later in pairwise(times)), primitive


def test_a_group_is_as_its_fewest_cards_on_a_host() -> None:
    assert shape_of(range(6, 16), CARD) == Shape(hosts=2, cards=2)
    assert shape_of((), CARD) == Shape(hosts=1, cards=1)


def test_what_public_measurements_of_a_host_say_of_more_cards_is_what_this_says() -> None:
    """Real groups come to a rate that is below that of the links, the same share for all sizes within a fifth."""
    shares = []
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            shares.append(float(row["gbps"]) / gbps(row["primitive"], range(int(row["cards"]))))
    middle = sorted(shares)[len(shares) // 2]
    assert all(share == pytest.approx(middle, rel=0.2) for share in shares)
    assert 1 / middle < CARD.value("collective_slowdown")
