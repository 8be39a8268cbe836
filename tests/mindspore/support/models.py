"""Real models for the tests of this folder: built in a child process, because mindspore keeps global state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from swapconf.decide.strategy import Recompute, Strategy, Swap
from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions

ROOT = Path(__file__).resolve().parents[3]
CHILD = Path(__file__).with_name("build_models.py")
TIMEOUT_SECONDS = 240
RECOMPUTED = "recompute_"  # what MindSpore puts before the scope of a recomputed cell

TINY_LLAMA = {
    f"model.model_config.{key}": value
    for key, value in {"hidden_size": 64, "num_heads": 4, "vocab_size": 64, "seq_length": 32}.items()
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model to build: a YAML below configs/ with some keys changed (dotted path -> value), under swapconf or not.

    ``devices``: how many to pretend. ``ascend``: answer "Ascend" when swapconf asks for the device.
    """

    example: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    swapconf: bool = True
    devices: int = 8
    ascend: bool = False


@dataclass(frozen=True, kw_only=True)
class Built:
    """What is on the built network, by path, and what was logged; ``error`` is the end of the log of a failed job."""

    config: Path
    primitives: Mapping[str, Mapping[str, Any]]
    cells: Mapping[str, Mapping[str, Any]]
    comm_fusion: Mapping[str, int]
    log: str
    status: int

    @property
    def messages(self) -> list[str]:
        """The INFO messages of mindformers' logger, without the prefix."""
        return [line.partition(" - INFO - ")[2] for line in self.log.splitlines() if " - INFO - " in line]

    @property
    def lines(self) -> list[str]:
        """The messages about swap and recompute."""
        return [message for message in self.messages if message.startswith(("Set ", "Skip "))]

    @property
    def swapped(self) -> dict[str, int]:
        """Primitives that are flagged for swap, and their prefetch."""
        return {
            path: attributes["backward_prefetch"]
            for path, attributes in self.primitives.items()
            if attributes.get("offload")
        }

    @property
    def recomputed(self) -> set[str]:
        """Primitives that MindSpore will recompute: flagged, or below a recomputed cell and not flagged off."""
        return {
            path
            for path, attributes in self.primitives.items()
            if attributes.get("recompute", self._below_recomputed_cell(path))
        }

    def _below_recomputed_cell(self, path: str) -> bool:
        return (self.cells[path.rpartition(".")[0]]["scope"] or "").startswith(RECOMPUTED)


def build(jobs: Mapping[str, Job], folder: Path) -> dict[str, Built]:
    """Build all models in one child process, each in a fork of its own."""
    stems = {name: name.replace("/", "-").replace(" ", "-") for name in jobs}
    configs = {name: write_config(job, folder / f"{stems[name]}.yaml") for name, job in jobs.items()}
    orders = [
        {
            "name": stems[name],
            "arguments": ["--config", str(configs[name])],
            "swapconf": job.swapconf,
            "devices": job.devices,
            "ascend": job.ascend,
        }
        for name, job in jobs.items()
    ]
    (folder / "jobs.json").write_text(json.dumps(orders), encoding="utf-8")
    subprocess.run(
        [sys.executable, str(CHILD), str(folder / "jobs.json"), str(folder)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    return {name: _read(folder, stem, configs[name]) for name, stem in stems.items()}


def environment() -> dict[str, str]:
    """For children: the checkout under test comes first."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def write_config(job: Job, target: Path) -> Path:
    config = yaml.safe_load((ROOT / "configs" / job.example).read_text(encoding="utf-8"))
    for dotted, value in job.changes.items():
        node, *path = config, *dotted.split(".")
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    target.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return target


def _read(folder: Path, stem: str, config: Path) -> Built:
    result = folder / f"{stem}.json"
    data = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    return Built(
        config=config,
        primitives=data.get("primitives", {}),
        cells=data.get("cells", {}),
        comm_fusion=data.get("comm_fusion", {}),
        log=(folder / f"{stem}.log").read_text(encoding="utf-8", errors="replace"),
        status=int((folder / f"{stem}.status").read_text()),
    )


# --- what swapconf decides for the same YAML, without mindspore -----------------------------------------------------


def strategy_of(config: Path) -> Strategy:
    strategy = study_file(config, Versions(), {}).strategy
    assert strategy is not None
    return strategy


def decided_swaps(strategy: Strategy) -> dict[str, int]:
    return {site: action.prefetch for site, action in _actions(strategy).items() if isinstance(action, Swap)}


def decided_recomputes(strategy: Strategy) -> set[str]:
    return {site for site, action in _actions(strategy).items() if isinstance(action, Recompute)}


def _actions(strategy: Strategy) -> dict[str, Any]:
    legacy = strategy.network.family in ("llama", "glm2")
    layers = "model.layers" if legacy else "model.decoder.layers"
    places = {
        entry.layer.name: f"{layers}.{entry.layer.name}"
        if entry.layer.name.isdigit()
        else f"model.mtp.layers.{entry.layer.name.removeprefix('mtp')}"
        for entry in strategy.layers
    }
    return {f"{places[name]}.{path}": action for (name, path), action in strategy.actions().items()}
