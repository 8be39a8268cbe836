"""The child of a dry run: mindformers' own Trainer on one config, with MindSpore simulating the device.

Started as ``python worker.py --config FOLDER/config.yaml FOLDER``, or the same under ``swapconf run``, which then
takes LayerSetting's place as in a real training. The folder also holds ``job.json``. What a dry run must not do is
taken out first: weights are not drawn, checkpoints neither read nor written, the data set is
replaced by a tiny one of the right shape. Everything else is the real thing. [mindspore, mindformers]
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

STAND_IN = "stand_in_data"
HOST_BYTES = 1 << 50
_PR_SET_PDEATHSIG = 1


def main(folder: Path) -> None:
    end_with_parent()
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    os.chdir(folder)
    prepare_mindspore()
    if job["pynative"]:
        dry_run_pynative(folder, job)
        return
    find_code(job["code"])
    from swapconf.dryrun import experts

    experts.take_any_sequence()
    from mindformers.core.context import build_context
    from mindformers.tools.register import MindFormerConfig
    from mindformers.trainer import Trainer

    config = MindFormerConfig(str(folder / "config.yaml"))
    leave_out(config, job["level"])
    if not job["real_data"]:
        stand_in_data(config, STAND_IN, job["columns"], job["steps"])
    config.output_dir = "./output"
    _set_output_path(config.output_dir)
    build_context(config)
    _write_flags(folder / "flags.json")
    result = Result(folder / "result.json", is_watched=job["is_watched"])
    if job["level"] > 0:
        result.write_after_each_step(job["steps"])
    Trainer(config).train()
    result.write(is_trained=True)


def dry_run_pynative(folder: Path, job: dict[str, Any]) -> None:
    """mindformers' other trainer, which compiles nothing."""
    from swapconf.dryrun.pynative.training import train

    result = Result(folder / "result.json", compiles=False, is_watched=job["is_watched"])
    train(folder, job, result.after)
    result.write(is_trained=True)


def find_code(folders: list[str]) -> None:
    """Modules of a model's own code are looked for in these folders last. mindformers refuses code that mentions a
    package which is not installed, although no training may ever import it; here an import fails where it is made."""
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    from mindformers.tools.hub import dynamic_module_utils

    dynamic_module_utils.check_imports = dynamic_module_utils.get_relative_imports


def _set_output_path(folder: str) -> None:
    """mindformers 1.8.0 moved the function; 1.6.0 and 1.7.0 have it among the tools."""
    if find_spec("mindformers.utils.file_utils"):
        from mindformers.utils.file_utils import set_output_path
    else:
        from mindformers.tools.utils import set_output_path
    set_output_path(folder)


def end_with_parent() -> None:
    """Whoever started this process may be killed without a chance to end it (Linux, PR_SET_PDEATHSIG)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def prepare_mindspore() -> None:
    import mindspore
    from mindspore.common import initializer

    # few cores leave the runtime one thread, which refuses the training step's control flow at O0; set once only
    with contextlib.suppress(RuntimeError):
        mindspore.runtime.dispatch_threads_num(5)
    _give_host_memory()

    def leave_as_it_is(_self: Any, _array: Any) -> None:
        """A dry run never reads the weights."""

    kinds: list[Any] = [
        kind
        for kind in vars(initializer).values()
        if isinstance(kind, type) and issubclass(kind, initializer.Initializer)
    ]
    for kind in kinds:
        kind._initialize = leave_as_it_is


def _give_host_memory() -> None:
    """Pinned host memory without end, in one piece.

    A simulated run of MindSpore 2.9.0 allots none, but counts it against this machine's memory, which says nothing of
    the training host. It numbers the addresses of every 1 GiB piece of the pool from nearly the same start, so that
    from the second piece on it frees in the wrong one, and a run that moves much stops with "memory isn't enough".
    """
    from mindspore._c_expression import OffloadContext

    host = OffloadContext.get_instance()
    host.set_offload_cpu_size(HOST_BYTES)
    host.set_host_mem_block_size(HOST_BYTES)


def leave_out(config: Any, level: int) -> None:
    """What a dry run neither needs nor may touch."""
    config.load_checkpoint = ""
    config.resume_training = False
    config.auto_trans_ckpt = False
    config.do_eval = False
    config.profile = False
    config.run_mode = "train"
    config.callbacks = []
    config.runner_config.epochs = 1
    # one step at a time: several steps in one sink are compiled into one graph otherwise
    config.runner_config.sink_size = 1
    for key in ("strategy_ckpt_save_file", "strategy_ckpt_config"):
        if config.parallel.get(key):
            config.parallel[key] = {"save_file": "./strategy.ckpt"} if key.endswith("config") else "./strategy.ckpt"
    _silence_loss(level)
    _leave_weights()


def _leave_weights() -> None:
    """mindformers 1.9.0 loads weights from ``pretrained_model_dir``, where there are any, without being asked."""
    from mindformers.trainer import Trainer

    if hasattr(Trainer, "_try_use_pretrained_model_dir_as_ckpt"):
        Trainer._try_use_pretrained_model_dir_as_ckpt = lambda _self: None


def _silence_loss(level: int) -> None:
    """At level 0 nothing runs, so there is no loss to print; at the others it means nothing."""
    from mindformers.core.callback import MFLossMonitor

    if level == 0:
        for name in ("on_train_step_end", "step_end", "on_train_epoch_end", "epoch_end"):
            if hasattr(MFLossMonitor, name):
                setattr(MFLossMonitor, name, lambda _self, _run_context: None)


def stand_in_data(config: Any, folder: str, columns: list[tuple[str, str, str, list[int]]], steps: int = 2) -> None:
    """A data set for so many steps, with columns as (name, argument of the model, type, shape of a sample)."""
    import numpy  # type: ignore[import-not-found, unused-ignore]  # comes with mindspore
    from mindformers.tools.register import MindFormerConfig
    from mindspore.mindrecord import FileWriter

    runner, parallel = config.runner_config, config.parallel_config
    samples = steps * int(runner.batch_size or 1) * int(runner.gradient_accumulation_steps or 1)
    for key in ("data_parallel", "micro_batch_num"):
        samples *= int(parallel.get(key) or 1)
    samples *= int(config.micro_batch_interleave_num or 1)

    Path(folder).mkdir(parents=True, exist_ok=True)
    writer = FileWriter(f"{folder}/tokens.mindrecord", shard_num=1, overwrite=True)
    writer.add_schema(
        {name: {"type": "int32" if kind == "uint8" else kind, "shape": shape} for name, _, kind, shape in columns},
        "stand-in",
    )
    row = {name: numpy.ones(shape, "int32" if kind == "uint8" else kind) for name, _, kind, shape in columns}
    writer.write_raw_data([row] * samples)
    writer.commit()

    names = [name for name, _, _, _ in columns]
    dataset = {
        "data_loader": {"type": "MindDataset", "dataset_dir": folder, "shuffle": False},
        "input_columns": names,
        "num_parallel_workers": 1,
        "python_multiprocessing": False,
        "drop_remainder": True,
        "repeat": 1,
        "numa_enable": False,
        "prefetch_size": 1,
    }
    given = config.train_dataset or {}
    if config.use_legacy is False or given.get("construct_args_key"):
        dataset["construct_args_key"] = [argument for _, argument, _, _ in columns if argument]
    if (given.get("data_loader") or {}).get("type") == "BlendedMegatronDatasetDataLoader":
        # as mindformers 1.9.0 does for this loader (BaseTrainer._get_columns_with_strategy)
        config.parallel.setdefault(
            "dataset_strategy",
            [[int(parallel.get("data_parallel") or 1), *[1] * max(len(shape), 1)] for _, _, _, shape in columns],
        )
    config.train_dataset = MindFormerConfig(**dataset)
    config.train_dataset_task = MindFormerConfig(type="CausalLanguageModelDataset", dataset_config=dataset)


def _write_flags(path: Path) -> None:
    """What the cells of the network carry that the trainer builds, once it stands."""
    from mindformers.trainer.base_trainer import BaseTrainer

    from swapconf.dryrun.flags import of_network

    create_network = BaseTrainer.create_network

    def create(trainer: Any, default_args: Any = None) -> Any:
        network = create_network(trainer, default_args)
        path.write_text(json.dumps(of_network(network)), encoding="utf-8")
        return network

    BaseTrainer.create_network = create


class Result:
    """MindSpore's own peaks, which are only known inside the process; of a process that ``is_watched`` what each step
    left behind, too."""

    def __init__(self, path: Path, *, compiles: bool = True, is_watched: bool = False) -> None:
        self._path, self._steps, self._compiles, self._is_watched = path, 0, compiles, is_watched
        self._by_step: list[tuple[int, int, int, int]] = []

    def write(self, *, is_trained: bool = False) -> None:
        """``is_trained``: all steps are done; MindSpore writes its trace now."""
        import mindspore

        from swapconf.dryrun.by_step import KEY
        from swapconf.files.writing import replace_text

        peaks = {
            "steps": self._steps,
            "is_trained": is_trained,
            **({} if self._compiles else {"compiles": False}),
            **({KEY: self._by_step} if self._is_watched else {}),
            "max_memory_allocated_bytes": int(mindspore.runtime.max_memory_allocated()),
            "max_memory_reserved_bytes": int(mindspore.runtime.max_memory_reserved()),
        }
        replace_text(self._path, json.dumps(peaks))

    def after(self, steps: int) -> None:
        """So many steps are done."""
        self._steps = steps
        if steps and self._is_watched:
            from swapconf.dryrun.left_behind import left_behind

            self._by_step.append(left_behind())
        self.write()

    def write_after_each_step(self, most: int) -> None:
        """A child that runs out of time in a later step has told the peak of the first. No callback is in such a run
        (`leave_out`), so it is told by what would call them. A data set of more than the ``most`` steps is not trained
        to its end."""
        from mindspore.train.callback import _CallbackManager

        name = next(name for name in ("on_train_step_end", "step_end") if name in vars(_CallbackManager))
        original = getattr(_CallbackManager, name)

        def step_end(manager: Any, run_context: Any) -> Any:
            self.after(self._steps + 1)
            if self._steps >= most:
                run_context.request_stop()
            return original(manager, run_context)

        setattr(_CallbackManager, name, step_end)


if __name__ == "__main__":
    main(Path(sys.argv[-1]))
