"""`model-not-named` against mindformers' own registry: the names that it takes a model from, and those it stops at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_model_not_named import LEGACY, NAMED, SIZES, legacy_model

pytestmark = pytest.mark.mindspore

CHILD = """
import json, sys
import mindformers
from mindformers.models.build_config import get_model_config
from mindformers.tools.register import MindFormerConfig, MindFormerModuleType, MindFormerRegister, register

said = []
named, legacy = json.load(open(sys.argv[1]))
register.is_legacy_model = lambda: False
for settings in named:
    try:
        config = get_model_config(MindFormerConfig(model_config=settings)).to_dict()
        kind = MindFormerModuleType.MODELS
        MindFormerRegister.get_cls(kind, MindFormerRegister.get_instance_type_from_cfg(config, kind))
        said.append("")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
register.is_legacy_model = lambda: True
find = MindFormerRegister.get_cls
MindFormerRegister.get_cls = lambda kind, name: find(kind, name) and dict  # found, and nothing is built
for model in legacy:
    try:
        for part, kind in (("model_config", MindFormerModuleType.CONFIG), ("arch", MindFormerModuleType.MODELS)):
            MindFormerRegister.get_instance_from_cfg(MindFormerConfig(**model).get(part), kind)
        said.append("")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
json.dump(said, open(sys.argv[1], "w"))
"""


def test_mindformers_stops_where_a_name_is_asked_for_and_only_there(tmp_path: Path) -> None:
    table = tmp_path / "settings.json"
    legacy = [legacy_model(named) for named, _ in LEGACY]
    table.write_text(json.dumps([[{**SIZES, **named} for named, _ in NAMED], legacy]))
    subprocess.run([sys.executable, "-c", CHILD, str(table)], check=True, cwd=tmp_path, timeout=300)
    said = json.loads(table.read_text())
    assert [bool(words) for words in said] == [bool(missing) for _, missing in (*NAMED, *LEGACY)], said
