"""Dry runs of layouts that leave a recorded trace: that of a Llama of two layers, whatever its cards."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from swapconf.cli.child_options import RunOptions
from swapconf.dryrun.kept_runs import Reports
from swapconf.dryrun.rank_order import RankOrder
from tests.helpers import TRACES

RECORDED = TRACES / "llama_l2_none"
PEAK_BYTES = 192_500_000
# layouts of it that have the same layers as the recorded one
FIXED = ("--fix", "model_parallel", "--fix", "use_seq_parallel", "--fix", "pipeline_stage")


class Recorded:
    """In place of `planning.reports`. ``broken``: values of `data_parallel` with which MindSpore stops."""

    def __init__(self, broken: Sequence[int] = ()) -> None:
        self.asked: list[RankOrder] = []
        self._broken = broken

    def __call__(
        self, orders: Sequence[RankOrder], runs: RunOptions, title: str, *, remembers: bool = False
    ) -> Reports:
        self.asked += orders
        found: Reports = {}
        for order in orders:
            assert order.keep is not None
            place = order.keep / f"rank_{order.rank}"
            shutil.copytree(RECORDED, place, dirs_exist_ok=True)
            values: Any = order.document.root.plain()
            stops = values["parallel_config"]["data_parallel"] in self._broken
            found[order.keep, order.rank] = {
                "rank": order.rank,
                "stage": 0,
                "outcome": "stopped with an error" if stops else "completed",
                "detail": "not this one" if stops else "",
                "used_peak_bytes": None if stops else PEAK_BYTES,
                "with_fragments_peak_bytes": None if stops else PEAK_BYTES,
                "host_bytes": 0,
                "fold_note": "",
                "seconds": 60.0,
            }
        return found
