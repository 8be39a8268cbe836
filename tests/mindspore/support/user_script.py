"""A training script as a user may write it. It builds the model of a YAML and writes down what became of both.

    python user_script.py --config FILE --out FILE [--install first|last|never] [--break]

``--install``: whether swapconf is installed before mindformers is imported, after it, or left to ``swapconf run``.
``--break``: change the config inside the script to one that has an error.
"""

import argparse
import copy
import json
import sys
from pathlib import Path

import swapconf

SUPPORT = Path(__file__).resolve().parent
sys.path += [str(SUPPORT), str(SUPPORT.parents[2] / "scripts")]

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--install", choices=("first", "last", "never"), default="never")
parser.add_argument("--break", dest="breaks", action="store_true")
options = parser.parse_args()

if options.install == "first":
    swapconf.install()
import mindformers.models.llama.llama  # noqa: E402, F401  # has LayerSetting by name
from mindformers import Trainer  # noqa: E402
from mindformers.core.context import build_context  # noqa: E402
from mindformers.tools.register import MindFormerConfig  # noqa: E402

if options.install == "last":
    swapconf.install()
from build_models import describe, pretend_devices  # type: ignore[import-not-found]  # noqa: E402
from run_mindformer import build_network  # noqa: E402

pretend_devices(8)
config = MindFormerConfig(options.config)
config.context.device_target = "CPU"
if options.breaks:
    config.swap_config.layer_swap[0]["layers"] = "True"
sections = {name: config[name] for name in ("swap_config", "recompute_config") if name in config}
before = copy.deepcopy(sections)
build_context(config)
network = build_network(Trainer(config))
options.out.write_text(json.dumps({**describe(network), "unchanged": repr(sections) == repr(before)}), encoding="utf-8")
