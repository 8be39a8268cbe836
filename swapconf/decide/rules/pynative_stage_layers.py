r"""pynative-stage-layers: layers that do not go into the stages of a pipeline, in PyNative mode.

With `auto`, and without the key, each stage gets as many layers as the others, and each chunk of a stage with
`pipeline_parallel_interleave_num`; the number of layers must divide so. A list has one text for each stage, with one
range of layers for each chunk. Otherwise mindformers stops while it builds the stages. So it does with `null`, which
YAMLs that it publishes have there: it takes that for a list. Source: mindformers 2.0.0 and 2.1.0,
pynative/distributed/pipeline_parallel.py, PpLayerSetting.

Fails with 6 layers: ``parallelism: {pipeline_parallel: 4}``. Passes: ``pipeline_parallel_layers_per_stage: ['0-1',
'2-3', '4', '5']`` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-stage-layers"
DIALECTS = PYNATIVE
_LIST = "pipeline_parallel_layers_per_stage"


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    stages, layout, layers = config.pipeline.num_stages, config.layout, config.model.num_layers
    if stages == 1 or layout.chunks < 1:
        return
    parts = stages * layout.chunks
    if layout.deals_nothing:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(f"parallelism.{_LIST}"),
            phrase("mindformers stops: null says nothing of the layers of {stages} stages", stages=stages),
            phrase("write auto, for as many in each, or one text such as {example} for each stage", example="'0-3'"),
        )
    if layout.deals_evenly and layers is not None and layers % parts:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("parallelism.pipeline_parallel"),
            phrase(
                "mindformers stops: {layers} layers do not go into {parts} equal parts (stages x chunks of a stage)",
                layers=layers,
                parts=parts,
            ),
            phrase("write a number of stages that divides the layers, or list them in `{key}`", key=_LIST),
        )
    listed = layout.layers_per_stage
    if listed is not None and len(listed) != stages:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(f"parallelism.{_LIST}"),
            phrase(
                "mindformers stops: layers of {count} stages are listed, and there are {stages}",
                count=len(listed),
                stages=stages,
            ),
            phrase("write one text such as {example} for each stage", example="'0-3'"),
        )
    elif listed is not None and (unlike := [one for one in listed if len(one.split(",")) != layout.chunks]):
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(f"parallelism.{_LIST}"),
            phrase(
                "mindformers stops: '{stage}' has {count} ranges of layers, and a stage has {chunks} chunks",
                stage=unlike[0],
                count=len(unlike[0].split(",")),
                chunks=layout.chunks,
            ),
            phrase("write as many ranges, with commas between, as `pipeline_parallel_interleave_num` says"),
        )
