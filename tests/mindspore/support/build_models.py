"""Child process: build models as the Trainer does and write down what every cell, primitive and parameter carries.

    python build_models.py JOBS.json OUT

JOBS is a list of ``{"name", "arguments", "swapconf", "devices", "ascend"}``: the arguments of run_mindformer.py,
whether swapconf is active, how many devices to pretend, whether to call the device an Ascend. Each job runs in a fork,
so that no job sees the contexts or the patched modules of another one while mindspore is imported only once.
``OUT/<name>.json`` holds what was built, ``OUT/<name>.log`` what was logged, ``OUT/<name>.status`` the exit code.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import mindformers  # noqa: F401  # before any fork: it takes seconds
import mindspore
from mindformers.trainer.base_trainer import BaseTrainer

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "run_mindformer.py"
PRIMITIVE_ATTRIBUTES = ("offload", "backward_prefetch", "recompute", "recompute_comm_op", "slice_activation")


def main() -> None:
    jobs, out = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    for job in jobs:
        child = os.fork()
        if not child:
            _run(job, out)
        _, status = os.waitpid(child, 0)
        (out / f"{job['name']}.status").write_text(str(os.waitstatus_to_exitcode(status)))


def _run(job: dict[str, Any], out: Path) -> None:
    """One job, in its own process; never returns, because mindspore may hang in an ordinary exit."""
    log = os.open(out / f"{job['name']}.log", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        _observe(out / f"{job['name']}.json")
        if job["devices"] > 1:
            pretend_devices(job["devices"])
        if job["ascend"]:
            _pretend_ascend()
        status = _build([*job["arguments"], "--build_only", "True", "--context.device_target", "CPU"], job["swapconf"])
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _build(arguments: list[str], swapconf: bool) -> int:
    """Start run_mindformer.py in this process, up to the built network."""
    if not swapconf:
        sys.argv = [str(SCRIPT), *arguments]
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return 0
    from swapconf.cli.main import main as command

    try:
        command(["run", str(SCRIPT), *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _observe(result: Path) -> None:
    """Write down every network that a trainer creates."""
    create_network = BaseTrainer.create_network

    def create_and_describe(trainer: Any, default_args: Any = None) -> Any:
        network = create_network(trainer, default_args)
        result.write_text(json.dumps(describe(network)), encoding="utf-8")
        return network

    BaseTrainer.create_network = create_and_describe


def _pretend_ascend() -> None:
    """For whoever asks mindspore itself from now on; mindformers has its own name for the same function."""
    get_context = mindspore.get_context
    mindspore.get_context = lambda key: "Ascend" if key == "device_target" else get_context(key)


def pretend_devices(devices: int) -> None:
    """Rank 0 of so many devices, without communication: the CPU has none for semi-automatic parallelism."""
    stand_ins = {
        "init": lambda: None,
        "get_rank": lambda *_: 0,
        "get_group_size": lambda *_: devices,
        "create_group": lambda *_: None,
        "_is_initialized": lambda: True,
    }
    for name, module in list(sys.modules.items()):
        for function in stand_ins if name.startswith(("mindformers", "mindspore.communication.management")) else ():
            if getattr(vars(module).get(function), "__module__", "").startswith("mindspore.communication"):
                setattr(module, function, stand_ins[function])


def describe(network: Any) -> dict[str, Any]:
    """Everything an annotation can leave behind, by path from the network."""
    cells = dict(network.cells_and_names())
    return {
        "primitives": {
            ".".join(filter(None, (path, name))): {
                key: primitive.attrs[key] for key in PRIMITIVE_ATTRIBUTES if key in primitive.attrs
            }
            for path, cell in cells.items()
            for name, primitive in cell._primitives.items()
            if primitive is not None
        },
        "cells": {
            path: {
                "scope": cell.get_scope(),
                "flags": {key: str(value) for key, value in cell.get_flags().items()},
                "pipeline_stage": getattr(cell, "pipeline_stage", None),
                "pipeline_segment": getattr(cell, "pipeline_segment", None),
                "lazy_inline": hasattr(cell, "cell_init_args"),
            }
            for path, cell in cells.items()
        },
        "comm_fusion": {name: parameter.comm_fusion for name, parameter in network.parameters_and_names()},
    }


if __name__ == "__main__":
    main()
