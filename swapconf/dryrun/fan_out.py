"""ORDERS -> REPORTS: several dry runs at once, on this machine or on a Dask cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.fold.orders import foldable
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.words import extras
from swapconf.words.phrases import phrase

_SIDE_BY_SIDE = 2  # the children of a folded order
_WATCH, _WATCH_SECONDS = "swapconf-parent-watch", 0.5


def dry_run_all(orders: Sequence[RankOrder], jobs: int, dask: str | None = None) -> Iterator[RankReport]:
    """Every order, with ``jobs`` children at once, each report as it comes. ``dask``: the address of a cluster to use
    instead.

    Raises ImportError where joblib, or Dask for an address, is not installed.
    """
    return (report for _, report in dry_run_each(orders, jobs, dask))


def dry_run_each(orders: Sequence[RankOrder], jobs: int, dask: str | None = None) -> Iterator[tuple[int, RankReport]]:
    """The same with the place of its order: several can be of one rank of one file, under other changes of it."""
    import joblib

    # ranks of one stage fold alike, so the question is put once for each stage of a document
    distinct = {(order.document, cluster_of(order.document).stage_of(order.rank)): order for order in orders}
    # ranks side by side keep all children busy; few of them have several runs at once
    each = min(jobs, _SIDE_BY_SIDE) if len(orders) < jobs and any(map(foldable, distinct.values())) else 1
    orders = [replace(order, children=each) for order in orders]
    if dask is not None:
        yield from enumerate(_on_dask([joblib.delayed(dry_run)(order) for order in orders], dask))
        return
    # batches of one, so that a report does not wait for the next one
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1, n_jobs=max(1, min(jobs // each, len(orders)))):
        yield from joblib.Parallel(return_as="generator_unordered", batch_size=1)(
            joblib.delayed(_dry_run_in_worker)(place, order) for place, order in enumerate(orders)
        )


def _dry_run_in_worker(place: int, order: RankOrder) -> tuple[int, RankReport]:
    """Ends this process, and with it its child, when whoever asked is killed: the pool itself would run on."""
    if not any(thread.name == _WATCH for thread in threading.enumerate()):
        threading.Thread(target=_end_without, args=(os.getppid(),), name=_WATCH, daemon=True).start()
    return place, dry_run(order)


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _on_dask(tasks: Sequence[Any], address: str) -> Iterator[RankReport]:
    import distributed
    import joblib

    client: Any = distributed.Client
    with client(address), joblib.parallel_config(backend="dask", n_jobs=-1):
        yield from joblib.Parallel(return_as="list", batch_size=1)(tasks)


def missing(dask: str | None = None) -> str:
    """What is not installed of the fan-out, in words; empty when all is there. ``dask``: as for `dry_run_all`."""
    return extras.missing("dryrun", phrase("a dry run"), "joblib", "psutil") or (
        extras.missing("dask", "--dask") if dask else ""
    )
