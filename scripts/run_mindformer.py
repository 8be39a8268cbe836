#!/usr/bin/env python3
"""Train, finetune, evaluate or predict with MindSpore Transformers as a YAML says.

    run_mindformer.py --config configs/small/example4_swap_with_recompute.yaml --run_mode train --use_parallel False

Any key of the YAML can be overridden by its dotted path; the value is read as YAML:

    --runner_config.batch_size=2   --swap_config.op_swap "[{op_name: attention, backward_prefetch: 5, layers: [0]}]"
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

# Options with a name of their own and the YAML key that each one sets.
TEXT_OPTIONS = {
    "--run_mode": "run_mode",
    "--device_target": "context.device_target",
    "--output_dir": "output_dir",
    "--load_checkpoint": "load_checkpoint",
    "--pretrained_model_dir": "pretrained_model_dir",
    "--src_strategy_path_or_dir": "src_strategy_path_or_dir",
    "--train_dataset_dir": "train_dataset.data_loader.dataset_dir",
    "--eval_dataset_dir": "eval_dataset.data_loader.dataset_dir",
}
YAML_OPTIONS = {
    "--use_parallel": "use_parallel",
    "--mode": "context.mode",
    "--device_id": "context.device_id",
    "--seed": "seed",
    "--auto_trans_ckpt": "auto_trans_ckpt",
    "--transform_process_num": "transform_process_num",
    "--only_save_strategy": "only_save_strategy",
    "--resume_training": "resume_training",  # True, or the name of a checkpoint
    "--num_samples": "train_dataset.data_loader.num_samples",
    "--do_eval": "do_eval",
    "--epochs": "runner_config.epochs",
    "--batch_size": "runner_config.batch_size",
    "--gradient_accumulation_steps": "runner_config.gradient_accumulation_steps",
    "--sink_mode": "runner_config.sink_mode",
}
RUN_MODES = ("train", "finetune", "eval", "predict")
# mindformers fills these sections with every key they may have, so a key that is missing there is a misspelt one.
CLOSED_SECTIONS = frozenset(
    ("runner_config", "parallel_config", "recompute_config", "swap_config", "moe_config", "monitor_config")
)


class WordLoader(yaml.SafeLoader):
    """Reads words of a command line: ``1e-6`` is a number there, as for mindformers' own script, though YAML 1.1 takes
    it for text."""


WordLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$", re.ASCII),
    list("-+.0123456789"),
)

Override = tuple[str, tuple[str, ...], Any]  # the argument as written, the path of its key, the value


class OverrideError(ValueError):
    """A command-line override that cannot be applied; the text names the argument."""


def parse_overrides(words: Sequence[str]) -> list[Override]:
    """``["--a.b=1", "--c", "[2]"]`` -> ``[("--a.b", ("a", "b"), 1), ("--c", ("c",), [2])]``."""
    overrides: list[Override] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        option, equals, text = word.partition("=")
        if not option.startswith("--"):
            raise OverrideError(f"{word}: expected --path.to.key=VALUE or --path.to.key VALUE")
        path = tuple(option[2:].split("."))
        if not all(path):
            raise OverrideError(f"{option}: the path has an empty part; write --path.to.key=VALUE")
        if not equals:
            if not remaining or remaining[0].startswith("--"):
                raise OverrideError(f"{option}: a value is missing; write {option}=VALUE")
            text = remaining.pop(0)
        overrides.append((option, path, read_value(option, text)))
    return overrides


def read_value(option: str, text: str) -> Any:
    """The YAML value that ``text`` spells; ``option`` is named when it is none."""
    try:
        return yaml.load(text, WordLoader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "cannot be read"
        raise OverrideError(f"{option}: {text!r} is not YAML: {problem}") from error


def apply_override(config: Any, option: str, path: Sequence[str], value: Any) -> None:
    """Set ``config[path[0]][path[1]]... = value`` in place; the mapping that receives it must exist."""
    node = config
    for depth, key in enumerate(path[:-1]):
        if key not in node:
            raise OverrideError(f"{option}: the config has no {'.'.join(path[: depth + 1])}")
        node = node[key]
        if not isinstance(node, dict):
            kind = type(node).__name__
            raise OverrideError(f"{option}: {'.'.join(path[: depth + 1])} is no mapping but of type {kind}")
    is_closed = len(path) == 1 or (len(path) == 2 and path[0] in CLOSED_SECTIONS)
    if is_closed and path[-1] not in node:
        similar = difflib.get_close_matches(path[-1], map(str, node), n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise OverrideError(f"{option}: the config has no {'.'.join(path)}{hint}")
    node[path[-1]] = value


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the YAML of the task")
    parser.add_argument(
        "--register_path", metavar="DIR", help="folder with model code that the YAML names in an auto_map"
    )
    parser.add_argument(
        "--build_only",
        metavar="BOOL",
        type=_read_bool,
        default=False,
        help="build the context and the network as training would, then stop",
    )
    for option, key in {**TEXT_OPTIONS, **YAML_OPTIONS}.items():
        choices = f": {', '.join(RUN_MODES)}" if option == "--run_mode" else ""
        parser.add_argument(option, metavar="VALUE", help=f"sets {key}{choices}")
    return parser


def _read_bool(text: str) -> bool:
    value = yaml.safe_load(text)
    if not isinstance(value, bool):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return value


def named_overrides(args: argparse.Namespace) -> list[Override]:
    """The overrides that options such as ``--batch_size 4`` stand for."""
    overrides: list[Override] = []
    for option, key in {**TEXT_OPTIONS, **YAML_OPTIONS}.items():
        text = getattr(args, option[2:])
        if text is not None:
            value = text if option in TEXT_OPTIONS else read_value(option, text)
            overrides.append((option, tuple(key.split(".")), value))
    return overrides


def load_config(path: Path, overrides: list[Override]) -> Any:
    """The YAML as mindformers reads it, with its defaults filled in and the overrides applied."""
    from mindformers.tools.register import MindFormerConfig

    # The run mode decides which sections exist at all, so it has to be known before the defaults are filled in.
    early = {key[0]: value for _, key, value in overrides if key in (("run_mode",), ("do_eval",))}
    config = MindFormerConfig(str(path), **early)
    if config.run_mode not in RUN_MODES:
        raise OverrideError(f"--run_mode: {config.run_mode!r} is none of {', '.join(RUN_MODES)}")
    for option, key_path, value in overrides:
        apply_override(config, option, key_path, MindFormerConfig(**value) if isinstance(value, dict) else value)
    return config


def register_external_code(folder: str) -> None:
    """Tell mindformers where the classes of an ``auto_map`` live, and let them import one another."""
    folder = os.path.realpath(folder)
    os.environ["REGISTER_PATH"] = folder
    if folder not in sys.path:
        sys.path.append(folder)


def use_cpu_wrapper(config: Any) -> None:
    """Register the CPU training step, and take it where the YAML asks for the Ascend one on a CPU."""
    here = str(Path(__file__).resolve().parent)
    if here not in sys.path:
        sys.path.append(here)
    import cpu_wrapper

    wrapper = config.get("runner_wrapper")
    if config.context.device_target == "CPU" and wrapper and wrapper.type == "MFTrainOneStepCell":
        wrapper.type = cpu_wrapper.CpuTrainOneStepCell.__name__


def dry_run(config: Any) -> None:
    """Prepare a dry run: weights are not drawn, checkpoints left alone, and data that is not there is stood in for."""
    from swapconf.dryrun import worker
    from swapconf.dryrun.stand_in import columns

    worker.prepare_mindspore()
    worker.leave_out(config, int(os.environ["MS_SIMULATION_LEVEL"]))
    if not os.path.exists(str(config.train_dataset.data_loader.dataset_dir)):
        needed = [
            (column.name, column.argument, column.kind, list(column.shape))
            for column in columns(config, legacy=config.use_legacy is not False)
        ]
        worker.stand_in_data(config, f"{config.output_dir}/stand_in_data/rank_{os.environ.get('RANK_ID', '0')}", needed)


class NetworkBuilt(Exception):
    """Ends ``Trainer.train`` as soon as the network exists."""

    def __init__(self, network: Any) -> None:
        super().__init__(f"built {type(network).__name__}")
        self.network = network


def build_network(trainer: Any) -> Any:
    """The network that ``trainer.train()`` would train, built by ``trainer.train()`` itself but without its data."""
    import numpy
    from mindspore.dataset import NumpySlicesDataset

    task = trainer.trainer
    create_network = task.create_network

    def create_network_and_stop(default_args: Any = None) -> None:
        raise NetworkBuilt(create_network(default_args))

    task.create_network = create_network_and_stop
    task.create_train_dataset = lambda default_args=None: NumpySlicesDataset(numpy.zeros((1, 1)))
    try:
        trainer.train()
    except NetworkBuilt as built:
        return built.network
    raise RuntimeError("the trainer trained a network that it did not build")


def start(trainer: Any, config: Any) -> None:
    """Hand over to the trainer's method for ``config.run_mode``."""
    checkpoint = config.load_checkpoint or None
    if config.run_mode == "train":
        trainer.train()
    elif config.run_mode == "finetune":
        trainer.finetune(resume_from_checkpoint=checkpoint)
    elif config.run_mode == "eval":
        trainer.evaluate(eval_checkpoint=checkpoint)
    else:
        trainer.predict(
            predict_checkpoint=checkpoint, input_data=config.input_data, batch_size=config.predict_batch_size
        )


def main() -> None:
    parser = make_parser()
    args, rest = parser.parse_known_args()
    try:
        overrides = named_overrides(args) + parse_overrides(rest)
    except OverrideError as error:
        parser.error(str(error))
    config_path = Path(args.config).expanduser()
    if not config_path.is_file():
        parser.error(f"--config: there is no file {config_path}")
    if args.register_path:
        register_external_code(args.register_path)

    # mindspore takes seconds to import: only now, when the arguments are known to be good.
    import mindspore
    from mindformers import Trainer
    from mindformers.core.context import build_context

    if importlib.util.find_spec("mindformers.utils.file_utils"):
        from mindformers.utils.file_utils import set_output_path
    else:  # before mindformers 1.8.0
        from mindformers.tools.utils import set_output_path

    try:
        config = load_config(config_path.resolve(), overrides)
    except OverrideError as error:
        parser.error(str(error))

    if os.environ.get("MS_SIMULATION_LEVEL"):
        dry_run(config)
    # On a machine with few cores the runtime would get a single thread, and then refuses the `if not overflow` of the
    # training step ("Can not build a sub graph which contains ConditionSwitch") at jit_level O0. 5 is the documented
    # default. It can be set only once, so whoever did it earlier is left to have known why.
    with contextlib.suppress(RuntimeError):
        mindspore.runtime.dispatch_threads_num(5)
    use_cpu_wrapper(config)
    set_output_path(config.output_dir)
    build_context(config)
    trainer = Trainer(config)
    if args.build_only:
        network = build_network(trainer)
        print(f"built {type(network).__name__}: {len(network.trainable_params())} trainable parameters")
    else:
        start(trainer, config)


if __name__ == "__main__":
    main()
