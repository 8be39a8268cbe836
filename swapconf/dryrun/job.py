"""JOB: one rank of one config, to be dry-run in a child process; and where its files are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.config.cluster import Cluster
from swapconf.dryrun.by_step import STEPS
from swapconf.dryrun.pynative.batches import Batches
from swapconf.dryrun.pynative.expert_load import EVEN, ExpertLoad
from swapconf.dryrun.stand_in import Column
from swapconf.models import own_layers
from swapconf.trace.trace_folder import BLOCKS

LOG = "worker.log"
RESULT = "result.json"
CONFIG = "config.yaml"
ORDERS = "job.json"
FLAGS = "flags.json"
GRAPHS = "graphs"
WRITTEN = (LOG, RESULT, CONFIG, ORDERS, FLAGS, GRAPHS, own_layers.FILE)


@dataclass(frozen=True, kw_only=True)
class Job:
    """``settings``: the training YAML after its overrides, as plain values. ``level``: MS_SIMULATION_LEVEL.

    ``plain``: mindformers alone, without swapconf. ``real_data``: the YAML's own data set instead of a stand-in with
    these ``columns``. ``steps``: how many are trained. ``is_watched``: see `watched.py`. ``code``: folders in which a
    module is looked for last. ``pynative``: for mindformers' PyNative trainer; ``batches``: of its stand-in;
    ``as_parallel``: with recompute and swap as on several cards; ``launch_blocking``: see `pynative/training.py`;
    ``load`` of its experts.
    ``prints_graph``: MindSpore prints the graph on which it decides the order of the kernels, and it
    is kept; ``prints_fused``: what is inside fused kernels is.
    """

    settings: dict[str, Any]
    cluster: Cluster
    rank: int
    level: int = 1
    plain: bool = False
    real_data: bool = False
    columns: tuple[Column, ...] = ()
    steps: int = STEPS
    is_watched: bool = False
    code: tuple[str, ...] = ()
    pynative: bool = False
    batches: Batches | None = None
    as_parallel: bool = False
    launch_blocking: bool = False
    load: ExpertLoad = EVEN
    prints_graph: bool = False
    prints_fused: bool = False
    timeout_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one rank: ``DIR/rank_N/``."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def result(self) -> Path:
        return self.path / RESULT

    @property
    def flags(self) -> Path:
        return self.path / FLAGS

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def graphs(self) -> Path:
        """Where MindSpore prints graphs, if it is asked to."""
        return self.path / GRAPHS

    def tracked(self, rank: int) -> Path | None:
        """Where the tracker wrote: into ``rank_N`` below its working folder where there are several ranks."""
        places = (self.path / f"rank_{rank}", self.path / "rank_0", self.path)
        return next((place for place in places if (place / BLOCKS).exists()), None)
