"""swapconf.dryrun.stand_in and swapconf.dryrun.adapted: what the child of a dry run is given of a published YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swapconf.dryrun.adapted import adapted, code_folders
from swapconf.dryrun.stand_in import columns


def shapes(settings: dict[str, Any], *, legacy: bool) -> dict[str, tuple[int, ...]]:
    return {column.name: column.shape for column in columns(settings, legacy=legacy)}


def model(kind: str = "LlamaForCausalLM", **sizes: Any) -> dict[str, Any]:
    return {"arch": {"type": kind}, "model_config": sizes}


class TestColumns:
    def test_a_llama_cuts_the_last_token_off_all_that_it_is_given(self) -> None:
        given = {"model": model(seq_length=8192), "train_dataset": {"input_columns": ["input_ids", "labels"]}}
        assert shapes(given, legacy=True) == {"input_ids": (8193,), "labels": (8193,)}
        assert shapes({"model": model(seq_length=8192)}, legacy=True) == {"input_ids": (8193,)}

    def test_but_not_where_labels_come_with_it_that_are_cut(self) -> None:
        given = {
            "model": model(seq_length=64, input_sliced_sig=True),
            "train_dataset": {"input_columns": ["input_ids", "target_ids", "attention_mask"]},
        }
        assert shapes(given, legacy=True) == dict.fromkeys(("input_ids", "target_ids", "attention_mask"), (64,))
        alone = {"model": model(seq_length=64, input_sliced_sig=True)}
        assert shapes(alone, legacy=True) == {"input_ids": (65,)}

    def test_glm_takes_what_it_is_given(self) -> None:
        given = {
            "model": model("ChatGLM2ForConditionalGeneration", seq_length=8192),
            "train_dataset": {"input_columns": ["input_ids", "labels"]},
        }
        assert shapes(given, legacy=True) == {"input_ids": (8192,), "labels": (8192,)}

    def test_mcore_models_follow_their_own_length_not_that_of_their_positions(self) -> None:
        assert shapes({"model": model("", max_position_embeddings=40960)}, legacy=False) == dict.fromkeys(
            ("input_ids", "labels", "loss_mask", "position_ids"), (4096,)
        )

    def test_else_that_of_their_data(self) -> None:
        data = {"data_loader": {"type": "BlendedMegatronDatasetDataLoader", "config": {"seq_length": 2048}}}
        assert shapes({"train_dataset": data}, legacy=False)["input_ids"] == (2048,)

    def test_a_mask_is_square_while_it_is_small(self) -> None:
        def asked(length: int) -> dict[str, Any]:
            return {
                "model": model("", seq_length=length),
                "train_dataset": {"input_columns": ["input_ids", "attention_mask"]},
            }

        assert shapes(asked(4096), legacy=False)["attention_mask"] == (1, 4096, 4096)
        assert set(shapes(asked(131072), legacy=False)) == {"input_ids"}

    def test_columns_of_a_megatron_data_set_are_those_that_mindformers_makes(self) -> None:
        def asked(**loader: Any) -> list[str]:
            data = {"data_loader": {"config": {"seq_length": 8, **loader}}}
            return [column.name for column in columns({"train_dataset": data}, legacy=False)]

        four = ["input_ids", "labels", "loss_mask", "position_ids"]
        assert asked() == four
        assert asked(create_attention_mask=True) == [*four, "attention_mask"]
        assert asked(create_attention_mask=True, create_compressed_eod_mask=True) == [*four, "actual_seq_len"]
        data = {"data_loader": {"config": {"create_compressed_eod_mask": True, "eod_pad_length": 64}}}
        assert shapes({"train_dataset": data}, legacy=False)["actual_seq_len"] == (64,)

    def test_a_model_may_call_columns_otherwise_and_take_fewer(self) -> None:
        data = {
            "input_columns": ["input_ids", "target_ids", "attention_mask"],
            "construct_args_key": ["input_ids", "labels"],
        }
        found = columns({"model": model(seq_length=8), "train_dataset": data}, legacy=True)
        assert [(column.name, column.argument) for column in found] == [
            ("input_ids", "input_ids"),
            ("target_ids", "labels"),
            ("attention_mask", ""),
        ]

    def test_nonsense_stands_for_nothing(self) -> None:
        given: dict[str, Any] = {"model": {"model_config": {"seq_length": True}}, "train_dataset": {"input_columns": 3}}
        assert shapes(given, legacy=True) == {"input_ids": (1025,)}
        assert shapes({"model": None, "train_dataset": []}, legacy=True) == {"input_ids": (1025,)}


class TestAdapted:
    def test_relative_paths_mean_the_folder_of_the_command(self, tmp_path: Path) -> None:
        (tmp_path / "configs").mkdir()
        (tmp_path / "configs" / "speed.json").write_text("{}")
        given = {
            "context": {"ascend_config": {"parallel_speed_up_json_path": "./configs/speed.json"}},
            "train_dataset": {"data_loader": {"paths": ["1", "configs/speed.json", "configs/absent"]}},
        }
        found = adapted(given, tmp_path)
        here = str(tmp_path / "configs" / "speed.json")
        assert found["context"]["ascend_config"]["parallel_speed_up_json_path"] == here
        assert found["train_dataset"]["data_loader"]["paths"] == ["1", here, "configs/absent"]
        found = adapted({"pretrained_model_dir": "configs", "output_dir": "", "type": "configs"}, tmp_path)
        assert found == {"pretrained_model_dir": str(tmp_path / "configs"), "output_dir": "", "type": "configs"}

    def test_a_speed_up_file_that_is_not_there_is_left_out(self, tmp_path: Path) -> None:
        given = {"context": {"ascend_config": {"precision_mode": "x", "parallel_speed_up_json_path": "./speed.json"}}}
        assert adapted(given, tmp_path) == {"context": {"ascend_config": {"precision_mode": "x"}}}

    def test_graphs_are_not_written(self, tmp_path: Path) -> None:
        given = {"context": {"mode": 0, "save_graphs": True, "save_graphs_path": "./graph"}}
        assert adapted(given, tmp_path) == {"context": {"mode": 0}}

    def test_the_device_is_the_one_that_is_simulated(self, tmp_path: Path) -> None:
        assert adapted({"context": {"device_target": "CPU"}}, tmp_path) == {"context": {"device_target": "Ascend"}}

    def test_the_yaml_itself_stays_as_it_is(self, tmp_path: Path) -> None:
        given = {"context": {"save_graphs_path": "./graph"}, "use_parallel": False}
        assert adapted(given, tmp_path)["use_parallel"] is True
        assert given == {"context": {"save_graphs_path": "./graph"}, "use_parallel": False}


def test_a_models_own_code_finds_what_stands_beside_it_in_the_repository_and_in_the_folder_of_the_command() -> None:
    assert code_folders("", Path("/here")) == ("/here",)
    assert code_folders("/clone/research/telechat2", Path("/here")) == ("/here", "/clone")
    assert code_folders("/clone/research/telechat2", Path("/clone")) == ("/clone",)
    assert code_folders("/mine/code", Path("/here")) == ("/here",)
