"""The catalog without MindSpore: which family a YAML asks for, which layers it has, and what was measured of them."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from swapconf.models import catalog, store
from swapconf.models.network import LayerTemplate

FAMILIES = ("llama", "glm2", "qwen3", "qwen3_moe", "deepseek_v3", "telechat3", "telechat3_moe")
# Those that releases share are there once.
TEMPLATES = [
    pytest.param(template, id=name)
    for template, name in {
        template: f"{family}-{release}-{number}-{template.name}"
        for family in FAMILIES
        for release in reversed(catalog.releases(family))
        for number, variant in enumerate(catalog.load(family, release).variants)
        for template in variant.templates.values()
    }.items()
]
LLAMA = catalog.load("llama").templates_for({"use_flash_attention": True}, 1)[0]


def legacy(config: object, network: object) -> dict[str, object]:
    return {"model_config": {"type": config}, "arch": {"type": network}}


def mcore(**model_config: object) -> dict[str, object]:
    return {"model_config": model_config}


@pytest.mark.parametrize(
    ("model", "use_legacy", "family"),
    [
        (legacy("LlamaConfig", "LlamaForCausalLM"), True, "llama"),
        (legacy("LlamaConfig", "LlamaForCausalLM"), None, "llama"),
        (legacy("ChatGLM2Config", "ChatGLM2ForConditionalGeneration"), None, "glm2"),
        (mcore(model_type="qwen3", architectures=["Qwen3ForCausalLM"]), False, "qwen3"),
        (mcore(model_type="qwen3_moe", architectures="Qwen3MoeForCausalLM"), False, "qwen3_moe"),
        (mcore(model_type="deepseek_v3"), False, "deepseek_v3"),
        (mcore(architectures=["TeleChat3ForCausalLM"]), None, "telechat3"),
        (mcore(type="PretrainedConfig", model_type="telechat3_moe"), False, "telechat3_moe"),
        # The legacy registry does not hold the new models, nor the other way round.
        (legacy("LlamaConfig", "LlamaForCausalLM"), False, None),
        (mcore(model_type="qwen3", architectures=["Qwen3ForCausalLM"]), True, None),
        # Classes outside the package, or models that only run inference in it.
        (legacy("TelechatConfig", "TelechatForCausalLM"), True, None),
        (legacy("LlamaConfig", "TelechatForCausalLM"), True, None),
        (mcore(model_type="qwen3", architectures=["Qwen3MoeForCausalLM"]), False, None),
        (mcore(model_type="glm4", architectures=["Glm4ForCausalLM"]), False, None),
        (mcore(type="PretrainedConfig", name_or_path="some/where"), None, None),
        ({"model_config": {"type": "LlamaConfig", "auto_register": "mine.LlamaConfig"}}, True, None),
        ({}, None, None),
    ],
)
def test_identifies_the_family_of_a_model_section(
    model: dict[str, object], use_legacy: bool | None, family: str | None
) -> None:
    assert catalog.identify(model, use_legacy=use_legacy) == family


JUNK: list[object] = [None, 0, -1, 10**30, 1.5, float("nan"), True, "", "text", [], [[]], [None], {}, {"type": []}]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_a_model_section_identifies_nothing(junk: object) -> None:
    sections = ({"model_config": junk, "arch": junk}, legacy(junk, junk), mcore(model_type=junk, architectures=junk))
    for section in sections:
        assert catalog.identify(section, use_legacy=None) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("junk", [junk for junk in JUNK if junk != 10**30], ids=repr)
def test_junk_in_a_model_config_still_has_layers(family: str, junk: object) -> None:
    known = catalog.load(family)
    settings = [*known.switches.values(), *(known.layout.first_dense, known.layout.moe_frequency, known.layout.mtp)]
    config = {key: junk for setting in settings if setting for key in setting.keys}
    assert len(catalog.load(family).templates_for(config, 3)) == 3
    assert all(name.startswith("mtp") for name, _ in catalog.load(family).extra_layers_for(config))


def test_lists_its_families_and_refuses_others() -> None:
    assert catalog.families() == FAMILIES
    with pytest.raises(KeyError, match="no family 'gpt9', only llama"):
        catalog.load("gpt9")


def test_identifying_reads_no_family_file() -> None:
    store._load.cache_clear()
    catalog.identify(legacy("LlamaConfig", "LlamaForCausalLM"), use_legacy=None)
    assert store._load.cache_info().currsize == 0


def test_imports_neither_mindspore_nor_numpy() -> None:
    code = "import sys, swapconf.models.catalog as c; c.load('llama'); print({'mindspore', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("model_config", "kinds"),
    [
        ({}, ["dense", "dense", "dense", "moe", "moe"]),
        ({"first_k_dense_replace": 1}, ["dense", "moe", "moe", "moe", "moe"]),
        ({"first_k_dense_replace": 9}, ["dense"] * 5),
        ({"first_k_dense_replace": 0}, ["moe"] * 5),
        ({"first_k_dense_replace": None}, ["moe"] * 5),
        ({"first_k_dense_replace": 0, "moe_layer_freq": 2}, ["moe", "dense", "moe", "dense", "moe"]),
        ({"first_k_dense_replace": 0, "moe_layer_freq": [1, 0, 0, 1, 0]}, ["moe", "dense", "dense", "moe", "dense"]),
        ({"n_routed_experts": None}, ["dense"] * 5),
    ],
)
def test_lays_out_dense_and_expert_layers(model_config: dict[str, object], kinds: list[str]) -> None:
    templates = catalog.load("deepseek_v3").templates_for(model_config, 5)
    assert [template.name for template in templates] == kinds


def test_equal_layers_share_one_template() -> None:
    assert len({id(template) for template in catalog.load("llama").templates_for({}, 40)}) == 1
    assert len({id(template) for template in catalog.load("deepseek_v3").templates_for({}, 61)}) == 2


@pytest.mark.parametrize(
    ("family", "model_config", "number"),
    [
        ("llama", {"num_layers": 80}, 80),
        ("llama", {"num_hidden_layers": 80}, 32),  # the legacy class takes only num_layers
        ("qwen3", {"num_hidden_layers": 64}, 64),
        ("qwen3", {"num_layers": 64}, 64),
        ("qwen3", {"num_hidden_layers": "64"}, 32),
        ("deepseek_v3", {}, 61),
    ],
)
def test_counts_the_layers(family: str, model_config: dict[str, object], number: int) -> None:
    assert catalog.load(family).layout.num_layers.count(model_config) == number


def test_multi_token_prediction_is_an_extra_layer() -> None:
    ((name, template),) = catalog.load("deepseek_v3").extra_layers_for({"num_nextn_predict_layers": 1})
    assert (name, template.name) == ("mtp0", "mtp")
    assert template.by_path["transformer_layer"].type == "TransformerLayer"
    assert catalog.load("deepseek_v3").extra_layers_for({"mtp_num_layers": 0}) == ()
    assert catalog.load("llama").extra_layers_for({}) == ()


@pytest.mark.parametrize(
    ("family", "model_config", "present", "absent"),
    [
        ("llama", {}, "attention.batch_matmul", "attention.flash_attention"),
        ("llama", {"qkv_concat": True}, "feed_forward.w_gate_hidden.matmul", "feed_forward.w1"),
        ("llama", {"use_flash_attention": True, "qkv_has_bias": True}, "attention.wq.bias_add", "attention.w_qkv"),
        ("glm2", {"mlp_concat": False, "qkv_concat": False}, "mlp.dense_left", "self_attention.query_key_value"),
        ("qwen3", {"hidden_act": "swiglu", "bias_swiglu_fusion": True}, "mlp.activation_func.swiglu", "mlp.split_"),
        ("qwen3", {"hidden_act": "swiglu"}, "mlp.activation_func.split", "mlp.activation_func.swiglu"),
        ("deepseek_v3", {}, "self_attention.linear_qkv", "self_attention.linear_kv_down_proj"),
        ("deepseek_v3", {"mla_qkv_concat": False}, "self_attention.linear_kv_down_proj", "self_attention.linear_qkv"),
    ],
)
def test_switches_change_the_operators(family: str, model_config: dict[str, object], present: str, absent: str) -> None:
    paths = catalog.load(family).templates_for(model_config, 1)[0].by_path
    assert present in paths
    assert absent not in paths


def test_says_when_no_stored_variant_fits() -> None:
    assert catalog.load("llama").approximated({"use_flash_attention": True, "qkv_concat": True}) == ()
    assert catalog.load("llama").approximated({"fused_rms_norm": False}) == ()
    assert catalog.load("llama").approximated({"fused_rms_norm": False, "qkv_concat": True}) == ("fused_rms_norm",)
    assert catalog.load("llama").approximated({"moe_config": {"expert_num": 8}}) == ("moe_config.expert_num",)


@pytest.mark.parametrize("family", FAMILIES)
def test_variants_stand_for_different_switch_values(family: str) -> None:
    known = catalog.load(family)
    combinations = [when for variant in known.variants for when in variant.when]
    assert all(set(when) == set(known.switches) for when in combinations)
    assert all(one != other for one, other in itertools.combinations(combinations, 2))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_flash_attention_pattern_names_an_operator(family: str) -> None:
    path = catalog.load(family).flash_attention.replace(r"\.", ".")
    for template in catalog.load(family).templates_for({"use_flash_attention": True}, 2):
        assert path in template.by_path


@pytest.mark.parametrize("template", TEMPLATES)
def test_operators_form_a_tree(template: LayerTemplate) -> None:
    seen: set[str] = set()
    for operator in template.operators:
        parent = operator.path.rpartition(".")[0]
        assert not parent or template.by_path[parent].kind == "cell"
        assert not parent or parent in seen
        assert operator.path not in seen
        seen.add(operator.path)


@pytest.mark.parametrize("template", TEMPLATES)
def test_graph_facts_are_consistent(template: LayerTemplate) -> None:
    for operator in template.operators:
        # Cells compute nothing themselves, and which communication executes is not the model's choice.
        known = operator.kind == "primitive" and operator.type not in ("AllReduce", "ReduceScatter")
        assert (operator.executed is not None) is known
        assert (operator.saved is not None) is known
        assert operator.executed is not False or not (operator.saved or operator.consumers)
        # A recomputed output is not kept, whatever reads it.
        assert not (operator.saved and operator.preset_recompute)
        for path in operator.consumers:
            assert template.by_path[path].kind == "primitive"
            assert template.by_path[path].executed is not False


# What op_swap moved in a dry run on the Ascend backend (Llama, data parallel 2 x model parallel 4, lazy inline).
@pytest.mark.parametrize(
    ("path", "moved"),
    [
        ("add", True),
        ("attention", True),
        ("feed_forward", True),
        ("attention.flash_attention", True),
        ("attention.apply_rotary_emb", True),
        ("attention.transpose", True),
        ("attention.reshape", True),
        ("attention_norm.norm", True),
        ("ffn_norm.norm", True),
        ("feed_forward.mul", False),
        ("feed_forward.w1.activation", False),
        ("feed_forward.w1.activation.silu", False),
        ("attention.wq.matmul", False),
    ],
)
def test_saved_agrees_with_a_dry_run(path: str, moved: bool) -> None:
    assert any(_saved_below(path)) is moved


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("attention_norm", ["norm"]),
        ("attention.wo", ["cast"]),
        ("attention.wq", ["cast", "reshape"]),
        ("feed_forward.w1", ["matmul", "cast", "reshape"]),
        ("feed_forward.w2", ["cast", "reshape"]),
    ],
)
def test_saved_primitives_of_a_cell_agree_with_a_dry_run(path: str, names: list[str]) -> None:
    assert [saved.rpartition(".")[2] for saved in _saved_below(path)] == names


def test_residual_add_feeds_the_norm_that_the_model_recomputes() -> None:
    assert LLAMA.by_path["add"].consumers == ("add", "ffn_norm.cast")
    assert LLAMA.by_path["ffn_norm.cast"].preset_recompute is True


def _saved_below(path: str) -> list[str]:
    return [
        operator.path
        for operator in LLAMA.primitives
        if operator.saved and (operator.path == path or operator.path.startswith(f"{path}."))
    ]
