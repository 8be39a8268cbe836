"""The child of a PyNative dry run: mindformers' own trainer, some steps of it. [mindspore, mindformers]

Two at least, because the optimizer's state is first there in the second. The model, its loss, the backward pass,
gradient clipping and the optimizer are the real ones. On one card each operator ends before Python goes on: what Python
holds is held, and no more is in use however far Python is ahead of the device. On shards threads race as on cards,
whose rank 0 is met so (docs/evidence/pynative.md), unless launches block, which meets the fullest card. Started by
`dryrun/worker.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def train(folder: Path, job: dict[str, Any], is_done: Callable[[int], None]) -> None:
    """``is_done``: called with the number of steps that are done, from 0 on."""
    import mindspore
    import yaml

    from swapconf.dryrun.pynative import hyper_parallel_stand_in

    hyper_parallel = hyper_parallel_stand_in.in_use()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_device("Ascend")
    is_alone = int(os.environ.get("RANK_SIZE", "1")) == 1
    if is_alone or job["launch_blocking"]:
        mindspore.runtime.launch_blocking()  # else threads race for when a tensor's memory is given back
    _allocate_on_device()
    settings = leave_out(yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")), job["steps"])

    from mindformers.pynative.trainer.trainer import Trainer

    from swapconf.dryrun import experts
    from swapconf.dryrun.pynative.as_parallel import apply_on_one_card
    from swapconf.dryrun.pynative.cube_math import do_without
    from swapconf.dryrun.pynative.expert_load import of_record
    from swapconf.dryrun.pynative.marks import Marker
    from swapconf.dryrun.pynative.moments import progress, watch_building, watch_training
    from swapconf.dryrun.pynative.spread_experts import spread
    from swapconf.dryrun.pynative.unread_values import leave_unread
    from swapconf.dryrun.pynative.whole_shapes import take_whole_shapes

    experts.take_any_sequence()
    do_without()
    leave_unread()
    if hyper_parallel == hyper_parallel_stand_in.STAND_IN:
        take_whole_shapes()
    spread(of_record(job["expert_load"]), job["rank"])
    marker = Marker()
    watch_building(Trainer, marker)
    if job["as_parallel"] and is_alone:
        apply_on_one_card(Trainer)
    samples, count = job["batches"]
    data = None if job["real_data"] else stand_in_data(samples, count, job["columns"])
    trainer = Trainer(config=settings, train_dataset=data, callbacks=[progress(marker, is_done)])
    (folder / "flags.json").write_text(json.dumps({"hyper_parallel": hyper_parallel}), encoding="utf-8")
    watch_training(trainer, marker)
    is_done(0)
    trainer.train()
    mindspore.runtime.synchronize()
    from swapconf.dryrun.pynative.moments import moved_to_host

    marker.write(folder, *moved_to_host(trainer, hyper_parallel))


def _allocate_on_device() -> None:
    """MindSpore 2.10.0 leaves parameters without memory where no device is named (nn/cell.py, to_empty)."""
    from mindspore import nn

    allocate = nn.Cell.to_empty

    def to_empty(cell: Any, *, device: str | None = None, recurse: bool = True) -> Any:
        return allocate(cell, device=device or "Ascend", recurse=recurse)

    nn.Cell.to_empty = to_empty


def leave_out(settings: dict[str, Any], steps: int) -> dict[str, Any]:
    """The same for so many steps, without what a dry run neither needs nor may touch. A batch that grows in the course
    of the training (mindformers 2.1.0) is as large from the first step on as it gets."""
    made = {key: value for key, value in settings.items() if key not in ("callbacks", "profiler", "eval_dataset")}
    made["checkpoint"] = {**(made.get("checkpoint") or {}), "enable_save": False, "load_path": ""}
    made["training"] = {**(made.get("training") or {}), "steps": steps}
    made["training"].pop("rampup_batch_size", None)
    return made


def stand_in_data(samples: int, count: int, columns: list[tuple[str, str, str, list[int]]]) -> Any:
    """A data set of ``count`` batches of ``samples``, with columns as (name, argument of the model, type, shape of a
    sample)."""
    import numpy  # type: ignore[import-not-found, unused-ignore]  # comes with mindspore
    from mindspore.dataset import NumpySlicesDataset

    values = {name: numpy.ones((samples * count, *shape), kind) for name, _, kind, shape in columns}
    return NumpySlicesDataset(values, shuffle=False).batch(samples)
