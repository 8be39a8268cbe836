"""swapconf migrate --whole: the rest of a graph-mode YAML in PyNative's form."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.config.config import Dialect
from swapconf.config.yaml_document import parse
from swapconf.migrate.migrate import Migration, MigrationOrder, migrate
from swapconf.migrate.report import Fate
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT

PAIR = Versions(mindspore="2.10.0", mindformers="2.0.0")
EXAMPLE = ROOT / "configs/generations/qwen3_graph_mode.yaml"
SMALL = sorted(path for folder in ("small", "llama2_7b") for path in (ROOT / "configs" / folder).glob("*.yaml"))


def done(text: str) -> Migration:
    return migrate(text, "train.yaml", MigrationOrder(target=Dialect.PYNATIVE, versions=PAIR, whole=True))


def made(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(done(text).text)
    return found


def changed(*lines: tuple[str, str]) -> str:
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in lines:
        assert old in text
        text = text.replace(old, new)
    return text


def test_every_section_that_pynative_training_reads_is_there() -> None:
    found = made(EXAMPLE.read_text(encoding="utf-8"))
    assert found["training"] == {
        "steps": 4000,
        "local_batch_size": 1,
        "global_batch_size": 2,
        "max_norm": 1.0,
        "seed": 42,
    }
    assert found["parallelism"]["data_parallel_shard"] == 1
    assert found["train_dataset"]["dataloader"]["column_names"] == ["input_ids", "labels", "loss_mask", "position_ids"]
    assert found["train_dataset"]["dataloader"]["config"]["seq_length"] == 1024
    assert found["model"]["architectures"] == "Qwen3ForCausalLM"
    assert "model_config" not in found["model"]
    assert "offset" not in found["model"]
    assert found["context"]["mode"] == 1
    assert found["recompute"] == {"mode": "full", "full_recompute_layer": ["0-1"]}
    assert found["swap"]["layer_swap"] == [{"layers": ["2"]}]


@pytest.mark.parametrize("file", [EXAMPLE, *SMALL], ids=lambda path: path.stem)
def test_what_is_written_is_a_pynative_yaml_without_errors_and_of_the_same_layers(file: Any) -> None:
    text = file.read_text(encoding="utf-8")
    later = Versions(mindspore="2.10.0", mindformers="2.1.0")  # 2.0.0 has no tensor parallelism for Qwen3
    study = study_document(parse(done(text).text, "t.yaml"), later, {})
    before = study_document(parse(text, "t.yaml"), PAIR, {})
    assert study.config.dialect is Dialect.PYNATIVE
    assert not study.is_refused, study.findings
    assert study.config.model.num_layers == before.config.model.num_layers
    is_qwen = study.config.model.section.get("model_type") == "qwen3"  # which has no stages in PyNative mode
    assert study.config.pipeline.num_stages == (1 if is_qwen else before.config.pipeline.num_stages)
    assert study.config.pipeline.sequence_parallel or study.config.pipeline.model_parallel == 1


def test_a_batch_of_all_cards_is_that_of_graph_mode() -> None:
    text = changed(
        ("  data_parallel: 1", "  data_parallel: 4"),
        ("  pipeline_stage: 1", "  pipeline_stage: 2\n  micro_batch_num: 8"),
        ("  batch_size: 1", "  batch_size: 2"),
        ("  swap: True", "  swap: False"),
        ("recompute: [0, 1]", "recompute: [1, 1]"),
    )
    found = made(text)
    assert found["training"]["local_batch_size"] == 2
    assert found["training"]["global_batch_size"] == 2 * 4 * 8
    assert found["training"]["steps"] == 8000 // 64
    assert found["parallelism"]["pipeline_parallel"] == 1
    assert any(item.fate is Fate.LOST and "qwen3 cannot be cut into stages" in item.text for item in done(text).items)
    assert found["recompute"]["full_recompute_layer"] == ["0", "2"]


def test_the_parallel_optimizer_becomes_fsdp_and_the_report_says_so() -> None:
    migration = done(changed(("enable_parallel_optimizer: False", "enable_parallel_optimizer: True")))
    assert yaml.safe_load(migration.text)["parallelism"]["data_parallel_shard"] == -1
    assert any(item.fate is Fate.CHANGED and "FSDP" in item.text and item.origin.line for item in migration.items)


def test_what_only_the_data_set_knows_is_to_be_checked() -> None:
    migration = done(
        changed(
            ("    sizes: [8000, 0, 0]\n", ""), ("    type: BlendedMegatronDatasetDataLoader", "    type: MindDataset")
        )
    )
    told = [item.text for item in migration.items if item.fate is Fate.CHECK]
    assert any("PyNative counts steps" in text for text in told)
    assert any("MindDataset" in text for text in told)


def test_a_model_that_stands_in_another_folder_is_reported_as_lost() -> None:
    migration = done(changed(("output_dir:", "pretrained_model_dir: ./qwen3\noutput_dir:")))
    assert migration.lost


def test_an_activation_gets_the_name_that_pynative_models_take() -> None:
    migration = done(EXAMPLE.read_text(encoding="utf-8"))
    model = yaml.safe_load(migration.text)["model"]
    assert (model["hidden_act"], model["gated_linear_unit"]) == ("silu", True)
    assert any("swiglu becomes silu" in item.text for item in migration.items if item.fate is Fate.CHANGED)


def test_a_model_that_is_not_there_in_pynative_mode_is_reported_as_lost() -> None:
    assert not done(EXAMPLE.read_text(encoding="utf-8")).lost
    told = [item.text for item in done(changed(('model_type: "qwen3"', 'model_type: "telechat3"'))).items]
    assert any("no PyNative model of this kind" in text for text in told)


def test_state_that_the_optimizer_keeps_on_the_host_is_reported_as_lost() -> None:
    migration = done(changed(("optimizer:\n  type: AdamW", "optimizer:\n  type: AdamW\n  swap: True")))
    assert migration.lost
    assert "swap" not in yaml.safe_load(migration.text)["optimizer"]


def test_an_operator_that_the_pynative_model_has_not_is_reported_as_lost() -> None:
    graph = changed(
        ("    - {backward_prefetch: 10, layers: [2]}", "    - {backward_prefetch: 10, layers: [2]}\n  op_swap:\n{op}")
    )
    entry = "    - {{backward_prefetch: 10, layers: [0], op_name: '{name}'}}".format
    gone = done(
        graph.replace("{op}", entry(name=r"self_attention\.core_attention\.flash_attention")).replace("[0, 1]", "[1]")
    )
    kept = done(graph.replace("{op}", entry(name=r"self_attention\.core_attention")).replace("[0, 1]", "[1]"))
    assert any("matches nothing of the PyNative model in layers 0" in item.text for item in gone.items)
    assert gone.lost
    assert not any("matches nothing" in item.text for item in kept.items)


def test_saving_is_carried_over_from_its_callback() -> None:
    text = changed(
        (
            "  - type: MFLossMonitor",
            "  - {type: CheckpointMonitor, save_checkpoint_steps: 50}\n  - {type: TrainFaultTolerance}",
        )
    )
    migration = done(text)
    assert yaml.safe_load(migration.text)["checkpoint"]["save_interleaved_steps"] == 50
    assert any("TrainFaultTolerance" in item.text for item in migration.items if item.fate is Fate.CHECK)


def test_it_is_there_for_pynative_only() -> None:
    result = CliRunner().invoke(main, ["migrate", str(EXAMPLE), "--to", "legacy", "--whole"])
    assert result.exit_code == 2
    assert "--to pynative only" in result.output
