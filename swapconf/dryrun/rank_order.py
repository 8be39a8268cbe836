"""ORDER: one rank of one config, to be dry-run; which ranks there are, and how the YAML shares out its devices."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.config.cluster import Cluster
from swapconf.config.nodes import Document
from swapconf.dryrun.by_step import STEPS
from swapconf.dryrun.pynative.expert_load import EVEN, ExpertLoad
from swapconf.study.settings import NONE, Settings
from swapconf.study.study import Study, study_for_run
from swapconf.timing.cost import Machine
from swapconf.words.phrases import phrase

REGISTER_PATH = "REGISTER_PATH"  # where mindformers looks for the code of `auto_register`
MAX_DEVICES = 1_000_000  # a slip of the pen must not fill the memory


def register_path(folder: str) -> str:
    """A relative folder means the one that the command was started in."""
    return str(Path(folder).resolve()) if folder else ""


@dataclass(frozen=True, kw_only=True)
class RankOrder:
    """``fold``: extrapolate from fewer layers where that is possible. ``keep``: the folder for the files, None for a
    temporary one. ``children``: how many child processes this order may have at once. ``machine``: for workspace
    (level 2) and times (level 3); None for the generic card. ``settings``: those that hold for the YAML.
    ``register_path``: the folder with the code of models that mindformers does not have, "" for none. ``as_parallel``:
    of PyNative, recompute and swap as on several cards. ``launch_blocking``: of PyNative on shards, each operator ends
    before Python goes on, as it always does on one card; ``load``: how tokens are spread over its experts. ``steps``:
    how many are trained to see what grows from one to the next, where they are more than usual; ``is_watched``: this is
    the run that does it, see `watched.py`. ``keeps_graph``: MindSpore's last graph of a run with a strategy, too.
    ``board``: where its children are entered while they run, see `board.py`, and ``title``: what they are of where the
    name of the YAML does not tell."""

    document: Document
    rank: int
    level: int = 1
    plain: bool = False
    as_parallel: bool = False
    launch_blocking: bool = False
    load: ExpertLoad = EVEN
    real_data: bool = False
    steps: int = STEPS
    is_watched: bool = False
    fold: bool = False
    timeout_seconds: float = 3600.0
    keep: Path | None = None
    keeps_graph: bool = False
    children: int = 1
    machine: Machine | None = None
    settings: Settings = NONE
    board: Path | None = None
    title: str = ""
    register_path: str = field(default_factory=lambda: register_path(os.environ.get(REGISTER_PATH, "")))

    def study(self, document: Document) -> Study:
        """What a document means in a run of this order."""
        return study_for_run(document, os.environ, self.settings)


def cluster_of(document: Document) -> Cluster:
    """How the YAML shares out its devices; that of a PyNative YAML as far as it says so."""
    native = document.root.get("parallelism")

    def count(key: str) -> int:
        section = document.root.get("parallel_config") if native is None else native
        node = section.get(key) if section is not None else None
        value = node.scalar if node is not None else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    if native is not None:
        return Cluster(
            data_parallel=count("data_parallel_shard"),
            model_parallel=count("tensor_parallel"),
            context_parallel=count("context_parallel"),
            num_stages=count("pipeline_parallel"),
            expert_parallel=count("expert_parallel"),
        )
    return Cluster(
        data_parallel=count("data_parallel"),
        model_parallel=count("model_parallel"),
        context_parallel=count("context_parallel"),
        num_stages=count("pipeline_stage"),
    )


def ranks_of(words: str, cluster: Cluster) -> tuple[int, ...]:
    """``stages``, ``all`` or a list such as ``0,7``. Raises ValueError, which says what is taken."""
    if words in ("stages", "all") and cluster.num_devices > MAX_DEVICES:
        raise ValueError(phrase("the config describes more than {devices:,} devices", devices=MAX_DEVICES))
    if words == "stages":
        return cluster.first_ranks()
    if words == "all":
        return tuple(range(cluster.num_devices))
    try:
        ranks = tuple(sorted({int(word) for word in words.split(",")}))
    except ValueError:
        raise ValueError(
            phrase("'{words}' is neither `stages`, `all` nor a list of ranks such as 0,7", words=words[:40])
        ) from None
    wrong = [rank for rank in ranks if not 0 <= rank < cluster.num_devices]
    if wrong:
        raise ValueError(
            phrase(
                "there is no rank {rank}: the config describes {devices} devices, 0 to {last}",
                rank=wrong[0],
                devices=cluster.num_devices,
                last=cluster.num_devices - 1,
            )
        )
    return ranks
