"""One training process, without mindspore: what the hook is told for the blocks that mindformers builds."""

from __future__ import annotations

from typing import Any

import pytest

from swapconf.config.yaml_document import parse
from swapconf.decide import log_lines
from swapconf.decide.edits import Offload
from swapconf.models import catalog
from swapconf.train import hook
from swapconf.train.planner import LayerPlanner
from swapconf.train.session import Session
from swapconf.words.findings import SwapconfError
from tests.helpers import AS_WRITTEN
from tests.unit.networks import TOY


def block(legacy: bool = True, swap: dict[str, Any] | None = None, num_layers: int = 4, **more: Any) -> dict[str, Any]:
    return {
        "use_legacy": legacy,
        "parallel_config": {"pipeline_stage": 1, "gradient_aggregation_group": 4},
        "parallel": {"pipeline_config": {"pipeline_interleave": False, "pipeline_scheduler": "1f1b"}},
        "model": {"model_config": {"num_layers": num_layers, "offset": 0}},
        "swap_config": swap or {},
        "recompute_config": {},
        **more,
    }


def planner(settings: dict[str, Any]) -> LayerPlanner:
    return Session().planner(settings)


def test_default_strategy_without_a_reviewed_config() -> None:
    order = planner(block(swap={"swap": True, "default_prefetch": 3})).order(0, TOY)
    assert order.edits == (Offload("attention.flash_attention", 3),)
    assert order.lines == ("Set op_swap at layer 0: attention.flash_attention, value=3",)


def test_errors_stop_a_block() -> None:
    with pytest.raises(SwapconfError, match="below 1"):
        planner(block(swap={"swap": True, "default_prefetch": 0}))


def test_mcore_gets_the_swap_section_that_mindformers_loses() -> None:
    session = Session()
    session.review(
        {
            "use_legacy": False,
            "use_parallel": True,
            "swap_config": {"swap": True, "default_prefetch": 8},
            "model": {"model_config": {"model_type": "qwen3", "num_hidden_layers": 2}},
        }
    )
    assert session.wants_lazy_inline()
    (template, _) = catalog.load("qwen3").templates_for({}, 2)
    lost = block(
        legacy=False, swap={"swap": False, "layer_swap": None, "op_swap": None, "default_prefetch": 1}, num_layers=2
    )
    order = session.planner(lost).order(1, template)
    assert order.lines == ("Set op_swap at layer 1: self_attention.core_attention.flash_attention, value=8",)


def test_review_points_into_the_source_file() -> None:
    source = parse("swap_config:\n  swap: True\n  layer_swap: all\n", "train.yaml")
    with pytest.raises(SwapconfError, match=r"train\.yaml:3:15  swap_config\.layer_swap: error"):
        Session(source).review({"swap_config": {"swap": True, "layer_swap": "all"}})


class ParallelConfig:
    """As mindformers' TransformerOpParallelConfig: its copy of the recompute settings stands in it."""

    def to_dict(self) -> dict[str, Any]:
        return {"pipeline_stage": 2, "recompute": {"recompute": True, "select_recompute": False}}


def test_a_config_that_mindformers_has_built_already_is_reviewed_as_it_was_written() -> None:
    config = {
        "use_parallel": True,
        "recompute_config": {"recompute": True},
        "parallel_config": ParallelConfig(),
        "model": {"model_config": {"type": "LlamaConfig", "num_layers": 4}},
    }
    Session().review(hook._whole(config))
    assert hook._whole(config)["parallel_config"] == {"pipeline_stage": 2}


def test_the_defaults_that_mindformers_fills_in_are_no_second_section() -> None:
    session = Session()
    session.review(
        {
            "use_legacy": False,
            "swap_config": {"swap": False, "layer_swap": None, "op_swap": None, "default_prefetch": 1},
            "model": {"model_config": {"model_type": "qwen3", "num_hidden_layers": 2, "swap": True}},
        }
    )
    assert session.wants_lazy_inline()


def test_a_bad_review_is_not_kept() -> None:
    session = Session()
    with pytest.raises(SwapconfError):
        session.review({"swap_config": {"swap": True, "default_prefetch": -1}})
    assert not session.wants_lazy_inline()


@pytest.mark.parametrize(
    ("group", "expected"), [(4, [1, 1, 2, 2, 3, 3, 4, 4]), (2, [1, 1, 1, 1, 2, 2, 2, 2]), (9, [1, 2, 3, 4, 5, 6, 7, 8])]
)
def test_communication_fusion_as_mindformers(group: int, expected: list[int]) -> None:
    settings = block(num_layers=8, parallel_config={"pipeline_stage": 1, "gradient_aggregation_group": group})
    plan = planner(settings)
    assert [plan.order(layer, TOY).comm_fusion for layer in range(8)] == expected


def test_pipeline_stages_and_fusion_with_a_pipeline() -> None:
    plan = planner(block(parallel_config={"pipeline_stage": 2, "gradient_aggregation_group": 4}))
    orders = [plan.order(layer, TOY) for layer in range(4)]
    assert [order.pipeline_stage for order in orders] == [0, 0, 1, 1]
    assert {order.comm_fusion for order in orders} == {2}
    assert {order.pipeline_segment for order in orders} == {None}


def test_sections_of_pynative_decide_nothing_in_a_graph_mode_run() -> None:
    """mindformers reads nothing of them there, and a prefetch in layers must not become one in operators."""
    session = Session()
    session.review(
        {
            "use_legacy": False,
            "model": {"model_config": {"num_layers": 4}},
            "swap": {"enable": True, "layer_swap": [{"layers": ["0-1"]}]},
        }
    )
    assert not session.wants_lazy_inline()
    order = session.planner(block(legacy=False)).order(0, TOY)
    assert order.edits == ()


QWEN3 = {
    "use_legacy": False,
    "use_parallel": True,
    "model": {"model_config": {"model_type": "qwen3", "num_hidden_layers": 4}},
}
NO_SWAP = {"swap": False, "layer_swap": None, "op_swap": None, "default_prefetch": 1}


def reviewed(**sections: Any) -> Session:
    session = Session(settings=AS_WRITTEN)
    session.review({**QWEN3, **sections})
    return session


@pytest.mark.parametrize(
    "recompute",
    [
        {"recompute": [1, 3]},
        {"select_recompute": {r"mlp": [1, 3]}},
        {"select_comm_recompute": {r".*\.norm": [1, 3]}},
        {"recompute": True, "select_recompute_exclude": {r"mlp\.mul": [1, 3]}},
    ],
)
def test_lists_of_an_mcore_model_name_layers_where_swap_is_on(recompute: dict[str, Any]) -> None:
    """mindformers passes these lists with a swap that is off, where they would be counts for each stage."""
    swap = {"swap": True, "layer_swap": [{"backward_prefetch": 5, "layers": [0]}]}
    session = reviewed(swap_config=swap, recompute_config=recompute)
    passed = block(legacy=False, swap=NO_SWAP, recompute_config=recompute)
    (template, *_) = catalog.load("qwen3").templates_for({}, 4)
    plan = session.planner(passed)
    assert session.study is not None
    assert session.study.strategy is not None
    for entry in session.study.strategy.layers:
        order = plan.order(entry.layer.index, entry.layer.template)
        assert order.lines == log_lines.lines(entry, swap_on=True)
    assert plan.order(0, template).edits != plan.order(1, template).edits == plan.order(3, template).edits
    assert plan.order(2, template).edits != plan.order(1, template).edits


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        ({"num_layers": 5}, "builds 5 layers"),
        ({"parallel_config": {"pipeline_stage": 2, "gradient_aggregation_group": 4}}, "pipeline stages"),
        ({"recompute_config": {"recompute": [0]}}, "another recompute"),
        (
            {
                "swap": {
                    "swap": True,
                    "op_swap": None,
                    "default_prefetch": 1,
                    "layer_swap": [{"backward_prefetch": 5, "layers": [1]}],
                }
            },
            "another swap",
        ),
    ],
)
def test_what_is_passed_otherwise_is_an_error_and_no_second_reading(passed: dict[str, Any], words: str) -> None:
    session = reviewed(
        swap_config={"swap": True, "layer_swap": [{"backward_prefetch": 5, "layers": [0]}]},
        recompute_config={"recompute": [1]},
    )
    good: dict[str, Any] = {"legacy": False, "swap": NO_SWAP, "recompute_config": {"recompute": [1]}}
    session.planner(block(**good))
    with pytest.raises(SwapconfError, match=words) as error:
        session.planner(block(**{**good, **passed}))
    assert {finding.rule for finding in error.value.findings} == {"passed-otherwise"}


def test_a_model_of_unknown_size_is_laid_out_as_mindformers_does() -> None:
    session = Session()
    session.review(
        {
            "use_legacy": True,
            "use_parallel": True,
            "model": {"model_config": {"type": "OwnConfig"}},
            "swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": 5, "layers": [3]}]},
        }
    )
    swap = {"swap": True, "layer_swap": [{"backward_prefetch": 5, "layers": [3]}], "op_swap": None}
    plan = session.planner(block(swap=swap))
    assert [bool(plan.order(layer, TOY).edits) for layer in range(4)] == [False, False, False, True]
