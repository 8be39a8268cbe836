"""CONFIG + VERSIONS -> is the model compiled with lazy inline, and what does recompute do without?

mindformers 1.9.0 turns it off where a step has neither stages nor accumulation; with swap, `swapconf run` keeps it on.
Without it MindSpore 2.9.0 has another recompute (measured on Llama, GLM, Qwen3 and Qwen3-MoE, one stage, one
micro-batch): weights are neither cast again, nor gathered again from their shards; tokens are not dispatched again; nor
are the splits of latent attention run again (DeepSeek-V3), nor the sorts of tokens before they are dispatched; nor is
what makes the output of the cell that was selected run again, where it makes more than one, as flash attention and
norms do.
"""

from __future__ import annotations

from swapconf.config.config import Config
from swapconf.decide.patterns import primitives_below
from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions
from swapconf.upstream.primitives import MAKE_SEVERAL, plain

FACT = "lazy_inline_off_without_pipeline"
RUNS_ALONE = "runs_flash_attention_and_norms_again_alone"


def lazily_inlined(config: Config, versions: Versions) -> bool:
    """Whether a run through swapconf is. True where it is not known: in stand-alone mode."""
    runtime = config.runtime
    if runtime.disable_lazy_inline:
        return False
    return not is_at_once(config) or config.swap_on or bool(runtime.stand_alone) or not versions.fact(FACT).value


def is_at_once(config: Config) -> bool:
    """Whether a step has neither stages nor accumulation."""
    return config.pipeline.num_stages == 1 and (config.runtime.gradient_accumulation_steps or 1) == 1


def outputs_left(operator: str, template: LayerTemplate) -> frozenset[str]:
    """Primitives below a selected operator that make its output among others, so that they are not run again; what no
    operator of the layer is known to read, as attention and norms of GLM, is read outside."""
    below = primitives_below(operator, template)
    inside = {primitive.path for primitive in below}
    return frozenset(
        primitive.path
        for primitive in below
        if plain(primitive.type) in MAKE_SEVERAL
        and not (primitive.consumers and inside.issuperset(primitive.consumers))
    )


def recomputes_nothing(operator: str, template: LayerTemplate) -> bool:
    """Whether all that a recompute of this operator could save is what is left."""
    saved = {
        primitive.path
        for primitive in primitives_below(operator, template)
        if primitive.saved is not False and not primitive.preset_recompute
    }
    return bool(saved) and saved <= outputs_left(operator, template)


def makes_several(operator: str, template: LayerTemplate) -> bool:
    """Whether it is a single primitive of several outputs: flash attention, a norm."""
    found = template.by_path.get(operator)
    return found is not None and found.kind == "primitive" and plain(found.type) in MAKE_SEVERAL
