"""base_config against mindformers itself: random files that include each other are merged alike, or refused alike."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from swapconf.config import base_config
from swapconf.words.findings import SwapconfError

pytestmark = pytest.mark.mindspore

CASES = 120
CHILD = """
import json, sys
from mindformers.tools.register import MindFormerConfig

sys.setrecursionlimit(200)  # an endless one reads every file of the way
said = []
for folder in json.load(open(sys.argv[1])):
    try:
        said.append(MindFormerConfig._file2dict(f"{folder}/train.yaml"))
    except (Exception, RecursionError) as error:
        said.append(type(error).__name__)
json.dump(said, open(sys.argv[1], "w"))
"""
NAMES = ("train.yaml", "a.yaml", "sub/b.yaml", "sub/c.yaml")
KEYS = ("model", "context", "recompute_config", "x")


def tree(seeded: random.Random, depth: int = 0) -> Any:
    """A value, more often a mapping near the top."""
    if depth < 3 and seeded.random() < 0.7 - depth * 0.2:
        return {key: tree(seeded, depth + 1) for key in seeded.sample(KEYS, seeded.randint(0, 3))}
    return seeded.choice([1, "a", None, True, [1, 2], [], {}])


def write(folder: Path, seeded: random.Random) -> None:
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        values = {key: tree(seeded, 1) for key in seeded.sample(KEYS, seeded.randint(1, 3))}
        above = "../" if name.startswith("sub/") else "./"
        later = [above + other for other in NAMES[number + 1 :]] + ["nowhere.yaml"] * (seeded.random() < 0.05)
        if seeded.random() < 0.03:
            later.append(above + NAMES[seeded.randrange(number + 1)])  # an endless one
        named = seeded.sample(later, seeded.randint(0, len(later))) if number or not later else later[:2]
        if named:
            values["base_config"] = named[0] if named[1:] == [] and seeded.random() < 0.5 else named
        (folder / name).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def ours(folder: Path) -> Any:
    """The merged values, and None where mindformers cannot go on."""
    try:
        document = base_config.of_file(folder / "train.yaml")
    except SwapconfError:
        return None
    return None if any(found.rule == base_config.RULE for found in document.findings) else document.root.plain()


def test_random_files_are_merged_as_mindformers_merges_them(tmp_path: Path) -> None:
    folders = [tmp_path / str(seed) for seed in range(CASES)]
    for seed, folder in enumerate(folders):
        write(folder, random.Random(seed))
    table = tmp_path / "folders.json"
    table.write_text(json.dumps(list(map(str, folders))))
    subprocess.run([sys.executable, "-c", CHILD, str(table)], check=True, cwd=tmp_path, timeout=900)
    theirs = json.loads(table.read_text())
    assert [ours(folder) for folder in folders] == [None if isinstance(said, str) else said for said in theirs]
    refused = sum(isinstance(said, str) for said in theirs)
    assert 10 < refused < CASES / 2, theirs
