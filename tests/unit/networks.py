"""Small networks for tests that want to see every operator at a glance."""

from __future__ import annotations

from swapconf.config.config import Config, Model, Pipeline
from swapconf.decide.stages import deal
from swapconf.models.network import Layer, LayerTemplate, Network, Operator


def cell(path: str) -> Operator:
    return Operator(path=path, kind="cell", type="Cell")


def primitive(
    path: str, *consumers: str, saved: bool | None = True, preset: bool | None = None, kind: str = "MatMul"
) -> Operator:
    return Operator(
        path=path, kind="primitive", type=kind, executed=True, saved=saved, preset_recompute=preset, consumers=consumers
    )


TOY = LayerTemplate(
    name="dense",
    cell="ToyLayer",
    operators=(
        primitive("add"),
        cell("norm"),
        primitive("norm.norm", "attention.wq.matmul"),
        primitive("norm.cast", "norm.norm", preset=True, saved=False),
        cell("attention"),
        cell("attention.wq"),
        primitive("attention.wq.matmul", "attention.flash_attention.flash_attention"),
        cell("attention.flash_attention"),
        primitive("attention.flash_attention.flash_attention", "add", kind="FlashAttentionScore"),
        cell("feed_forward"),
        primitive("feed_forward.mul", "feed_forward.w2.matmul", saved=False),
        cell("feed_forward.w2"),
        primitive("feed_forward.w2.matmul", "add"),
    ),
)

# as in the MoE layers, whose router must not be recomputed
ROUTED = LayerTemplate(
    name="moe", cell="ToyMoELayer", operators=(*TOY.operators, primitive("feed_forward.router", preset=False))
)


def network(num_layers: int = 4, template: LayerTemplate = TOY, pipeline: Pipeline | None = None) -> Network:
    stages = deal(num_layers, pipeline or Pipeline())
    layers = tuple(
        Layer(
            index=index,
            name=str(index),
            template=template,
            stage=stages.pipeline_stage(index),
            interleave=stages.places[index][0],
        )
        for index in range(num_layers)
    )
    return Network(family="toy", layers=layers)


def config(num_layers: int = 4, **parts: object) -> Config:
    return Config(file="toy.yaml", model=Model(num_layers=num_layers), **parts)  # type: ignore[arg-type]
