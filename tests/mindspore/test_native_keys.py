"""Which keys `training` and `parallelism` may have, against the configuration of mindformers itself."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from swapconf.files import cache_folder
from swapconf.upstream import native_keys
from tests.helpers import ROOT

ENVIRONMENTS = cache_folder.place("generations", os.environ) / "environments"
SCRIPT = """
import json
from dataclasses import fields
from mindformers.pynative.config import config
found = {"training": config.TrainingConfig, "parallelism": config.ParallelismConfig}
told = {name: [cls.allow_extra, sorted(one.name for one in fields(cls))] for name, cls in found.items()}
print("TOLD" + json.dumps(told))
"""


@pytest.mark.pynative
@pytest.mark.parametrize("version", [native_keys.FIRST, native_keys.LATEST])
def test_the_keys_of_a_release_are_the_fields_of_its_configuration(version: str) -> None:
    python = ENVIRONMENTS / f"{version}+2.10.0" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no environment with mindformers {version}: scripts/generations.sh pynative makes one")
    done = subprocess.run(
        [str(python), "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts/placeholders'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.rpartition("TOLD")[2])
    assert told == {name: [False, sorted(native_keys.known(name, version))] for name in native_keys.SECTIONS}
