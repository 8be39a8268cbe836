"""What swapconf leaves on the cells of real models, against what it decides from the YAML alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mindspore.support.models import (
    TINY_LLAMA,
    Built,
    Job,
    build,
    decided_recomputes,
    decided_swaps,
    environment,
    strategy_of,
)

pytestmark = pytest.mark.mindspore

EXAMPLES = ("example1_default_swap", "example2_layer_swap", "example3_op_swap", "example4_swap_with_recompute")

# The documented lines (Fine-Grained Activations SWAP, cases 1 to 4), as a worker logs them after the prefix.
OP_SWAP = [
    "Set op_swap at layer 0: .attention, value=20",
    "Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15",
    "Set op_swap at layer 2: .attention, value=20, .feed_forward, value=15",
    "Set op_swap at layer 3: .attention, value=10",
]
DOCUMENTED = {
    "example1_default_swap": [
        f"Set op_swap at layer {layer}: attention.flash_attention, value=10" for layer in range(4)
    ],
    "example2_layer_swap": [f"Set layer swap at layer {layer} and value is: 20" for layer in (0, 3)],
    "example3_op_swap": OP_SWAP,
    "example4_swap_with_recompute": [
        "Set select recompute at layer 0: feed_forward",
        OP_SWAP[0],
        OP_SWAP[1],
        OP_SWAP[2],
        "Set select recompute at layer 3: feed_forward",
        OP_SWAP[3],
    ],
}

MCORE = ("qwen3_default_swap", "deepseek_v3_default_swap")
FLASH = "self_attention.core_attention.flash_attention"


def entry(name: str, prefetch: int, layers: list[int]) -> dict[str, Any]:
    return {"op_name": name, "backward_prefetch": prefetch, "layers": layers}


def llama(changes: dict[str, Any], **others: Any) -> Job:
    """The documented example 1, tiny, with other sections."""
    return Job(example="llama2_7b/example1_default_swap.yaml", changes={**TINY_LLAMA, **changes}, **others)


# Recompute wins over swap where the two overlap, whatever the names in the YAML.
OVERLAPS = llama(
    {
        "swap_config": {
            "swap": True,
            "layer_swap": [{"backward_prefetch": 3, "layers": [3]}],
            "op_swap": [
                entry(r"attention\.wq", 5, [0]),
                entry("attention", 6, [1]),
                entry(r"feed_forward\.w.", 7, [1, 2]),
                entry("feed_forward", 8, [0]),
            ],
        },
        "recompute_config": {
            "recompute": [3],
            "select_recompute": {
                "attention": [0],
                r"attention\.w[qk]": [1],
                r"feed_forward\.w[12]": [2],
                "feed_forward": [0],
            },
        },
    }
)

# Recompute without swap: swapconf does what mindformers' own LayerSetting does.
PIPELINE_2 = {
    "parallel_config.pipeline_stage": 2,
    "parallel_config.micro_batch_num": 2,
    "parallel_config.model_parallel": 2,
}
INTERLEAVE_2 = {
    **PIPELINE_2,
    "model.model_config.num_layers": 8,
    "model.model_config.pp_interleave_num": 2,
    "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"},
}
ZERO_BUBBLE = {
    **INTERLEAVE_2,
    "model.model_config.num_layers": 9,
    "model.model_config.offset": [[0, 0], [0, 1]],
    "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "zero_bubble_v"},
}
WITHOUT_SWAP: dict[str, dict[str, Any]] = {
    "nothing": {"recompute_config": {"recompute": False}},
    "fusion groups": {
        "recompute_config": {"recompute": False},
        "model.model_config.num_layers": 7,
        "parallel_config.gradient_aggregation_group": 3,
    },
    "every layer": {**PIPELINE_2, "recompute_config": {"recompute": True, "recompute_slice_activation": True}},
    "counts per stage": {**PIPELINE_2, "recompute_config": {"recompute": [2, 1]}},
    "counts with offset": {
        **PIPELINE_2,
        "model.model_config.num_layers": 7,
        "model.model_config.offset": [2, -1],
        "recompute_config": {"recompute": [1, True], "select_recompute": [3, 0]},
    },
    "counts dealt to interleaves": {**INTERLEAVE_2, "recompute_config": {"recompute": [3, 1]}},
    "counts per interleave": {**INTERLEAVE_2, "recompute_config": {"recompute": [[2, 0], [1, 2]]}},
    "zero bubble": {**ZERO_BUBBLE, "recompute_config": {"recompute": [[1, 0], [1, 2]]}},
    "builtin patterns": {"recompute_config": {"select_recompute": True, "select_comm_recompute": True}},
    "names": {**PIPELINE_2, "recompute_config": {"select_recompute": [r"feed_forward\.mul", r"attention\.w[qkv]"]}},
    "names with counts": {
        **PIPELINE_2,
        "recompute_config": {
            "select_recompute": {r"feed_forward\.w.": [1, 2], r"attention\.wo\.matmul": True, "add": [0, 1]},
            "select_comm_recompute": {r".*\.norm": [2, 1]},
        },
    },
    "exclusions": {
        **PIPELINE_2,
        "recompute_config": {
            "recompute": [1, 0],
            "select_recompute": {"feed_forward": True},
            "select_recompute_exclude": {r"feed_forward\.w1\.matmul": True, r"feed_forward\.mul": [1, 1]},
            "select_comm_recompute": True,
            "select_comm_recompute_exclude": {r"attention\.wo\.matmul": [1, 2]},
        },
    },
    "selection that an exclusion repeats": {
        "recompute_config": {
            "select_recompute": {r"feed_forward\.mul": True, r"attention\.wo": True},
            "select_recompute_exclude": {r"feed_forward\.mul": [1]},
        }
    },
    "slices beside a list": {
        **PIPELINE_2,
        "recompute_config": {"recompute": [1, 2], "recompute_slice_activation": True, "mp_comm_recompute": False},
    },
}
MCORE_WITHOUT_SWAP: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3 builtin patterns": ("qwen3", {"select_recompute": True, "select_comm_recompute": True}),
    "deepseek counts": ("deepseek_v3", {"recompute": [1, 1], "select_recompute": {"self_attention": True}}),
}

JOBS = {
    **{f"llama2_7b/{name}": Job(example=f"llama2_7b/{name}.yaml", changes=TINY_LLAMA) for name in EXAMPLES},
    **{f"small/{name}": Job(example=f"small/{name}.yaml", devices=1) for name in EXAMPLES},
    **{name: Job(example=f"small/{name}.yaml") for name in MCORE},
    "deepseek layers": Job(
        example="small/deepseek_v3_default_swap.yaml",
        changes={"swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": 4, "layers": [2]}]}},
    ),
    "deepseek routers": Job(
        example="small/deepseek_v3_default_swap.yaml",
        changes={"recompute_config": {"select_recompute": {r"mlp\.router\.topk": [2]}}},
    ),
    "overlaps": OVERLAPS,
}

# The same models with neither swap nor recompute, built by mindformers alone.
PLAIN = {
    f"{name} plain": replace(
        job,
        swapconf=False,
        changes={**job.changes, "swap_config": {"swap": False}, "recompute_config": {"recompute": False}},
    )
    for name, job in JOBS.items()
}
# As they are, but built by mindformers alone.
UPSTREAM = {f"{name} upstream": replace(JOBS[name], swapconf=False) for name in MCORE}

COMPARED = {
    **{name: llama({"swap_config": {"swap": False}, **changes}) for name, changes in WITHOUT_SWAP.items()},
    **{
        name: Job(
            example=f"small/{family}_default_swap.yaml",
            changes={"swap_config": {"swap": False}, "recompute_config": recompute},
        )
        for name, (family, recompute) in MCORE_WITHOUT_SWAP.items()
    },
}
THEIRS = {f"{name} upstream": replace(job, swapconf=False) for name, job in COMPARED.items()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    jobs = {**JOBS, **PLAIN, **UPSTREAM, **COMPARED, **THEIRS}
    models = build(jobs, tmp_path_factory.mktemp("models"))

    def find(name: str) -> Built:
        model = models[name]
        assert model.status == 0, model.log[-3000:]
        return model

    return find


@pytest.mark.parametrize("name", JOBS)
def test_swap_is_flagged_exactly_at_the_decided_sites(built: Callable[[str], Built], name: str) -> None:
    decided = decided_swaps(strategy_of(built(name).config))
    assert decided
    assert built(name).swapped == decided


def test_a_primitive_that_layers_share_is_flagged_where_it_is_asked_for(built: Callable[[str], Built]) -> None:
    """mindformers has one gating activation for all routers."""
    model = built("deepseek layers")
    assert [path for path in model.swapped if path.endswith("gating_activation")] == [
        "model.decoder.layers.2.mlp.router.gating_activation"
    ]


def test_what_a_model_keeps_out_of_recompute_can_be_asked_for_itself(built: Callable[[str], Built]) -> None:
    """MindSpore hides the method ``recompute`` of a primitive once it was called."""
    assert "model.decoder.layers.2.mlp.router.topk" in built("deepseek routers").recomputed


@pytest.mark.parametrize("name", JOBS)
def test_recompute_is_flagged_exactly_at_the_decided_sites(built: Callable[[str], Built], name: str) -> None:
    elsewhere = {path for path in built(f"{name} plain").recomputed if ".layers." not in path}  # the model's own doing
    assert built(name).recomputed == decided_recomputes(strategy_of(built(name).config)) | elsewhere


@pytest.mark.parametrize("folder", ["llama2_7b", "small"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_documented_example_logs_the_documented_lines(built: Callable[[str], Built], folder: str, name: str) -> None:
    assert built(f"{folder}/{name}").lines == DOCUMENTED[name]


@pytest.mark.parametrize(("name", "extra_layers"), [("qwen3_default_swap", []), ("deepseek_v3_default_swap", ["mtp"])])
def test_the_default_swap_finds_the_flash_attention_of_mcore_models(
    built: Callable[[str], Built], name: str, extra_layers: list[str]
) -> None:
    sites = [f"model.decoder.layers.{layer}.{FLASH}" for layer in range(4)]
    sites += [f"model.mtp.layers.0.transformer_layer.{FLASH}" for _ in extra_layers]
    lines = [f"Set op_swap at layer {layer}: {FLASH}, value=10" for layer in range(4)]
    lines += [f"Set op_swap at layer 3: transformer_layer.{FLASH}, value=10" for _ in extra_layers]
    assert built(name).swapped == dict.fromkeys(sites, 10)
    assert built(name).lines == lines


@pytest.mark.parametrize("name", MCORE)
def test_mindformers_alone_swaps_nothing_in_mcore_models(built: Callable[[str], Built], name: str) -> None:
    upstream = built(f"{name} upstream")
    assert upstream.swapped == {}
    assert upstream.lines == []


@pytest.mark.parametrize("name", JOBS)
def test_no_primitive_is_both_swapped_and_recomputed(built: Callable[[str], Built], name: str) -> None:
    assert not set(built(name).swapped) & built(name).recomputed


def test_recompute_wins_at_overlapping_operators(built: Callable[[str], Built]) -> None:
    swapped: dict[str, set[int]] = {}
    for path, prefetch in built("overlaps").swapped.items():
        layer, _, operator = path.removeprefix("model.layers.").partition(".")
        swapped.setdefault(f"{layer}.{'.'.join(operator.split('.')[:2])}", set()).add(prefetch)
    assert not [path for path in swapped if path.startswith(("0.", "3."))]  # an ancestor, the same, the whole layer
    assert "1.attention.wo" in swapped  # descendants of a swapped cell are recomputed, the rest of it is not
    assert "1.attention.wq" not in swapped
    assert {path: found for path, found in swapped.items() if "feed_forward" in path} == {
        "1.feed_forward.w1": {7},
        "1.feed_forward.w2": {7},
        "1.feed_forward.w3": {7},
        "2.feed_forward.w3": {7},
    }


def test_what_is_void_is_logged_as_skipped(built: Callable[[str], Built]) -> None:
    wins = ", and recompute wins over swap [R1-recompute-wins]"
    assert built("overlaps").lines == [
        "Set select recompute at layer 0: attention, feed_forward",
        f"Skip op_swap at layer 0: attention.wq, attention is recomputed{wins}",
        f"Skip op_swap at layer 0: .feed_forward, feed_forward is recomputed{wins}",
        "Set select recompute at layer 1: attention.wq, attention.wk",
        "Set op_swap at layer 1: .attention, value=6, feed_forward.w1, value=7, feed_forward.w2, value=7, "
        "feed_forward.w3, value=7",
        "Set select recompute at layer 2: feed_forward.w1, feed_forward.w2",
        "Set op_swap at layer 2: feed_forward.w3, value=7",
        f"Skip op_swap at layer 2: feed_forward.w1, feed_forward.w1 is recomputed{wins}",
        f"Skip op_swap at layer 2: feed_forward.w2, feed_forward.w2 is recomputed{wins}",
        "Set full recompute at layer 3",
        f"Skip layer swap at layer 3: the whole layer is recomputed{wins}",
    ]


@pytest.mark.parametrize("name", COMPARED)
def test_without_swap_the_cells_are_as_mindformers_leaves_them(built: Callable[[str], Built], name: str) -> None:
    ours, theirs = built(name), built(f"{name} upstream")
    assert {path: cell["pipeline_stage"] for path, cell in ours.cells.items()} == {
        path: cell["pipeline_stage"] for path, cell in theirs.cells.items()
    }
    assert ours.comm_fusion == theirs.comm_fusion
    assert ours.primitives == theirs.primitives
    assert ours.cells == theirs.cells


OFFLOADED = """
import json
from mindspore import nn, ops
from swapconf.decide.edits import Offload
from swapconf.train.cells import apply

class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.matmul, self.add, self.none = ops.MatMul(), ops.Add(), None

class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner, self.same = Inner(), nn.SequentialCell(Inner(), nn.Dense(2, 2))
        self.cast = ops.Cast()
        self.add = self.inner.add

def primitives(layer):
    return [one for _, cell in layer.cells_and_names() for one in cell._primitives.values() if one is not None]

def told(layer):
    return [[one.name, one.attrs, one.get_attr_dict(), sorted(vars(one))] for one in primitives(layer)]

theirs, ours, alone, edited = Layer(), Layer(), ops.MatMul(), Layer()
theirs.offload(backward_prefetch=7)
apply(ours, [Offload("", 7)])
alone._offload(backward_prefetch=3)
apply(edited, [Offload("inner.matmul", 3)])
one = edited.inner.matmul
flagged = [[each.attrs, each.get_attr_dict()] for each in (alone, one)]
print(json.dumps([told(theirs), told(ours), *flagged], default=str))
"""


def test_a_swap_leaves_on_primitives_what_mindspores_own_offload_leaves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLOADED], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    theirs, ours, alone, edited = json.loads(done.stdout.splitlines()[-1])
    assert ours == theirs
    assert len(ours) > 5
    assert all(attributes["offload"] is True and attributes["backward_prefetch"] == 7 for _, attributes, *_ in ours)
    assert edited == alone
