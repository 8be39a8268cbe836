"""No input crashes check: text, bytes, and well-formed YAML with anything in it."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.config import base_config
from swapconf.config.config import Dialect
from swapconf.config.yaml_document import parse
from swapconf.decide import module_lines, modules
from swapconf.decide.log_lines import lines
from swapconf.migrate.migrate import MigrationOrder, migrate
from swapconf.report.explanation import as_json, module_rows, modules_as_json, rows
from swapconf.report.findings_text import as_lines
from swapconf.study.study import Study, study_document, study_file
from swapconf.upstream.facts import Versions
from swapconf.words.findings import SwapconfError
from tests.helpers import study_of_values

KEYS = (
    "swap",
    "default_prefetch",
    "layer_swap",
    "op_swap",
    "layers",
    "backward_prefetch",
    "op_name",
    "recompute",
    "select_recompute",
    "select_comm_recompute",
    "select_recompute_exclude",
    "mp_comm_recompute",
    "model_config",
    "num_layers",
    "type",
    "offset",
    "pp_interleave_num",
    "pipeline_stage",
    "pipeline_config",
    "pipeline_interleave",
    "enable",
    "mode",
    "full_recompute_layer",
    "select_module",
    "exclude_op",
    "cpu_offloading",
    "num_hidden_layers",
    "parallel_config",
    "recompute_config",
    "micro_batch_num",
)
TOP = (
    "swap_config",
    "recompute_config",
    "model",
    "parallel_config",
    "parallel",
    "context",
    "use_legacy",
    "runner_config",
    "use_parallel",
    "swap",
    "recompute",
    "recompute_comm",
    "training",
    "parallelism",
    "actor_config",
    "ref_config",
    "rl_config",
    "run_mode",
    "micro_batch_interleave_num",
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 6),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "attention",
            r"attention\.flash_attention",
            "attention.wq",
            ".*",
            "(",
            "Auto",
            "LlamaConfig",
            "qwen3",
            "deepseek_v3",
            "True",
            "0-2",
            "3",
            "2-0",
            "full",
            "select",
        ]
    ),
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=5))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=12,
)
documents = st.dictionaries(st.one_of(st.sampled_from(TOP), st.text(max_size=6)), values, max_size=6)
models = st.fixed_dictionaries(
    {
        "model_config": st.fixed_dictionaries(
            {"type": st.sampled_from(["LlamaConfig", "ChatGLM2Config", "Unknown"])},
            optional={
                "num_layers": st.integers(0, 6),
                "use_flash_attention": st.booleans(),
                "offset": values,
                "pp_interleave_num": values,
            },
        )
    }
)


def use(study: Study) -> None:
    """Everything that the commands do with a study."""
    as_lines(study.findings)
    for finding in study.findings:
        assert finding.hint
        assert finding.message
    module_rows(study.modules)
    said = {layer: module_lines.lines(layer, here) for layer, here in modules.by_layer(study.config)}
    json.loads(modules_as_json(study.modules, said))
    if study.strategy is not None:
        rows(study.strategy)
        logged = {entry.layer.name: lines(entry, study.strategy.swap_on) for entry in study.strategy.layers}
        json.loads(as_json(study.strategy, logged))


def studied(document: Any) -> None:
    start = time.monotonic()
    use(study_of_values(document))
    assert time.monotonic() - start < 5  # a second on a quiet machine


@settings(max_examples=300)
@given(documents)
def test_any_mapping(document: dict[str, Any]) -> None:
    studied(document)


@settings(max_examples=200)
@given(documents, documents, documents, st.booleans())
def test_any_mappings_that_include_each_other(
    document: dict[str, Any], first: dict[str, Any], second: dict[str, Any], back: bool
) -> None:
    files = {
        "a.yaml": {**first, "base_config": "b.yaml"},
        "b.yaml": {**second, **({"base_config": "a.yaml"} if back else {})},
    }
    texts = {name: yaml.safe_dump(values) for name, values in files.items()}
    text = yaml.safe_dump({**document, "base_config": ["b.yaml", "a.yaml"]})
    read = base_config.of_text(text, "law.yaml", texts.__getitem__)
    assert {one.file for one in read.included} == set(files)
    use(study_document(read, Versions(), {}))


@settings(max_examples=200)
@given(models, values, values, values)
def test_any_sections_below_those_of_models(model: dict[str, Any], parallel: Any, recompute: Any, offset: Any) -> None:
    actor = {"model_config": {"model": model}, "parallel_config": parallel, "recompute_config": recompute}
    studied({"actor_config": {**actor, "offset": offset}, "ref_config": actor, "rl_config": offset})


@settings(max_examples=300)
@given(models, values, values, st.booleans())
def test_any_sections_for_a_real_model(model: dict[str, Any], swap: Any, recompute: Any, on: bool) -> None:
    if isinstance(swap, dict) and on:
        swap = {**swap, "swap": True}
    studied({"model": model, "swap_config": swap, "recompute_config": recompute})


@settings(max_examples=100)
@given(models, values, values, st.sampled_from(Dialect))
def test_any_pynative_sections_and_their_migration(
    model: dict[str, Any], swap: Any, recompute: Any, target: Dialect
) -> None:
    if isinstance(swap, dict):
        swap = {**swap, "enable": True}
    document = {"model": model, "swap": swap, "recompute": recompute}
    studied(document)
    migrated(document, target)


@settings(max_examples=100)
@given(documents, st.sampled_from(Dialect))
def test_any_mapping_is_migrated_or_refused(document: dict[str, Any], target: Dialect) -> None:
    migrated(document, target)


def migrated(document: Any, target: Dialect) -> None:
    with contextlib.suppress(SwapconfError):
        done = migrate(yaml.safe_dump(document), "law.yaml", MigrationOrder(target=target, versions=Versions()))
        assert all(item.text for item in done.items)
        assert done.after.dialect is target


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("ab:,-[]{}&*!|>#'\"<0123456789 \n\t.eE%@`?~_\\"), max_size=60))
def test_any_text(text: str) -> None:
    with contextlib.suppress(SwapconfError):
        use(study_document(parse(text, "law.yaml"), Versions(), {}))


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "law.yaml"
        file.write_bytes(content)
        with contextlib.suppress(SwapconfError):
            use(study_file(file, Versions(), {}))
