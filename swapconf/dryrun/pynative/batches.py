"""SETTINGS + CLUSTER + RELEASE -> BATCHES: how the data set of a PyNative run is cut for mindformers' trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swapconf.config.cluster import Cluster
from swapconf.dryrun.stand_in import section
from swapconf.upstream.facts import Versions


@dataclass(frozen=True, slots=True)
class Batches:
    """``samples``: of a batch on one rank. ``count``: batches of the whole run."""

    samples: int
    count: int


def batches(settings: Mapping[str, Any], cluster: Cluster, versions: Versions, steps: int) -> Batches:
    """``settings``: the YAML as plain values; both sizes are 1 where they are not given (pynative/config/config.py of
    mindformers 2.0.0 and 2.1.0, TrainingConfig)."""
    training = section(settings, "training")
    of_rank = max(_count(training.get("global_batch_size")) // cluster.data_parallel, 1)
    if versions.fact("native_batch_is_a_step").value:
        return Batches(of_rank, steps)
    each = _count(training.get("local_batch_size"))
    return Batches(each, steps * max(of_rank // each, 1))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
