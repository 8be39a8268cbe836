"""CONDITIONAL: settings that mindformers or MindSpore reads only beside others, as one table.

Lines are those of mindformers 1.9.0, which 2.0.0 and 2.1.0 have at the same places, and 1.6.0 to 1.8.0 at others,
unless ``since`` says otherwise. A setting is in the table where somebody who asks for it gets another step, another
memory or another layout than the YAML says; templates of mindformers hold many more that are merely left over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from swapconf.words.findings import Severity
from swapconf.words.phrases import mark

LINES_OF = "1.9.0"

Given: TypeAlias = "str | int | float | bool | None"


class Need(NamedTuple):
    """What another setting must be.

    Attributes:
        path: The other setting, under the first of these names that is given; none: it is never read.
        least, most: Of a number.
        one_of: Of another value.
        otherwise: What mindformers takes where nothing is given.
    """

    path: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    one_of: tuple[Given, ...] = ()
    otherwise: Given = 1

    def holds(self, given: Mapping[str, object]) -> bool:
        """True where it cannot be told, as for a value of another type."""
        if not self.path:
            return False
        value = self.value(given)
        if self.one_of:
            return value in self.one_of
        if not isinstance(value, int) or isinstance(value, bool):
            return True
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def value(self, given: Mapping[str, object]) -> object:
        return next((given[path] for path in self.path if given.get(path) is not None), self.otherwise)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditional:
    """A setting, and what it needs to count.

    Attributes:
        path: Under the first of these names that is given.
        nothing: The values by which it asks for nothing.
        needs: All of them.
        lazily_inlined: False: the layers must not be lazily inlined, either.
        source: Where it is read, or dropped.
        hint: What to do.
        legacy: Of legacy models alone; mcore models refuse it.
        since: The first mindformers of which it holds, "" for all.
        unless: Settings that say the same; beside one of them it does no harm.
    """

    path: tuple[str, ...]
    nothing: tuple[Given, ...]
    needs: tuple[Need, ...]
    source: str
    hint: str
    severity: Severity = Severity.NOTE
    lazily_inlined: bool = True
    legacy: bool = False
    since: str = ""
    unless: tuple[str, ...] = ()


STAGES = ("parallel_config.pipeline_stage", "parallel_config.pipeline_model_parallel_size")
TENSORS = ("parallel_config.model_parallel", "parallel_config.tensor_model_parallel_size")
CONTEXTS = ("parallel_config.context_parallel", "parallel_config.context_parallel_size")
DATA = ("parallel_config.data_parallel", "parallel_config.data_parallel_size")
SEQUENCE_PARTS = "parallel_config.seq_split_num"
SCHEDULE, INTERLEAVE, SCHEDULER = "parallel.pipeline_config", "pipeline_interleave", "pipeline_scheduler"
# of MindSpore 2.9.0 (parallel/_auto_parallel_context.py:78); without interleave it takes the first alone
SCHEDULERS = ("1f1b", "gpipe", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")
SHARDS_OPTIMIZER = "parallel.enable_parallel_optimizer"
OPTIMIZER_SHARDS = "parallel.parallel_optimizer_config.optimizer_weight_shard_size"
EXPERTS = ("parallel_config.expert_parallel", "parallel_config.expert_model_parallel_size")
_PARALLEL = Need(("use_parallel",), one_of=(True,), otherwise=True)
_SEVERAL_STAGES = Need(STAGES, least=2)
_SEVERAL_TENSORS = Need(TENSORS, least=2)
_SEVERAL_CONTEXTS = Need(CONTEXTS, least=2)
_MODEL = "model.model_config."

TABLE = (
    Conditional(
        path=STAGES,
        nothing=(1,),
        needs=(_PARALLEL,),
        source="trainer/base_trainer.py:289",
        hint=mark("write `use_parallel: True`, or start the training with `--use_parallel True`"),
        severity=Severity.WARNING,
    ),
    *(
        Conditional(
            path=path,
            nothing=(1,),
            needs=(_PARALLEL,),
            source="trainer/base_trainer.py:289",
            hint=mark("write `use_parallel: True`, or start the training with `--use_parallel True`"),
        )
        for path in (("parallel_config.data_parallel",), TENSORS, CONTEXTS)
    ),
    Conditional(
        path=("parallel_config.micro_batch_num",),
        nothing=(1,),
        needs=(_PARALLEL, _SEVERAL_STAGES),
        source="trainer/base_trainer.py:215",
        hint=mark("without stages `gradient_accumulation_steps` of runner_config gives the batch micro-batches"),
        severity=Severity.WARNING,
    ),
    Conditional(
        path=("runner_config.gradient_accumulation_steps",),
        nothing=(1,),
        needs=(_PARALLEL, Need(STAGES, most=1)),
        source="trainer/base_trainer.py:314",
        hint=mark("with stages `micro_batch_num` of parallel_config gives the batch micro-batches"),
        severity=Severity.WARNING,
    ),
    Conditional(
        path=("micro_batch_interleave_num",),
        nothing=(1,),
        needs=(_PARALLEL, _SEVERAL_TENSORS, Need(("micro_batch_interleave_num",), one_of=(2,))),
        source="MindSpore, frontend/parallel/pass/label_micro_interleaved_index.cc",
        hint=mark("it still multiplies the batch: write 1 where communication cannot run beside the other half"),
        lazily_inlined=False,
        legacy=True,
    ),
    Conditional(
        path=(SEQUENCE_PARTS,),
        nothing=(1,),
        needs=(_SEVERAL_STAGES,),
        source="trainer/base_trainer.py:517",
        hint=mark("remove it, or write `pipeline_stage`"),
    ),
    Conditional(
        path=("parallel_config.context_parallel_algo",),
        nothing=("colossalai_cp",),
        needs=(_SEVERAL_CONTEXTS,),
        source="modules/transformer/transformer.py:599",
        hint=mark("remove it, or write `context_parallel`"),
    ),
    Conditional(
        path=("parallel_config.ulysses_degree_in_cp",),
        nothing=(1,),
        needs=(
            _SEVERAL_CONTEXTS,
            Need(
                ("parallel_config.context_parallel_algo",), one_of=("hybrid_cp", "hybird_cp"), otherwise="colossalai_cp"
            ),
        ),
        source="modules/transformer/transformer.py:602",
        hint=mark("remove it, or write `context_parallel` and `context_parallel_algo: hybrid_cp`"),
    ),
    Conditional(
        path=("parallel_config.optimizer_shard",),
        nothing=(False,),
        needs=(Need(),),
        source="modules/transformer/transformer.py:763",
        hint=mark("`enable_parallel_optimizer` of `parallel` shards the optimizer"),
    ),
    Conditional(
        path=(f"{_MODEL}pp_interleave_num", f"{_MODEL}virtual_pipeline_model_parallel_size"),
        nothing=(1,),
        needs=(Need((f"{SCHEDULE}.{INTERLEAVE}",), one_of=(True,), otherwise=False), _SEVERAL_STAGES),
        source="parallel_core/training_graph/transformer/utils.py:159",
        hint=mark("write `pipeline_config: {{pipeline_interleave: True, pipeline_scheduler: 1f1b}}` below `parallel`"),
        severity=Severity.WARNING,
    ),
    Conditional(
        path=(f"{_MODEL}offset",),
        nothing=(0,),
        needs=(_SEVERAL_STAGES,),
        source="parallel_core/training_graph/transformer/utils.py:573",
        hint=mark("remove it, or write `pipeline_stage`"),
        since="1.8.0",
    ),
    Conditional(
        path=(f"{_MODEL}fine_grain_interleave",),
        nothing=(1, 0),
        needs=(_SEVERAL_TENSORS,),
        source="models/utils.py:131",
        legacy=True,
        hint=mark("remove it, or write `model_parallel`"),
    ),
    Conditional(
        path=("context.deterministic",),
        nothing=("OFF",),
        needs=(Need(),),
        source="core/context/build_context.py:503",
        hint=mark("`train_precision_sync: True` at the top level makes a training deterministic"),
        severity=Severity.WARNING,
        since="1.9.0",
        unless=("train_precision_sync", "context.train_precision_sync"),
    ),
    Conditional(
        path=("context.jit_level",),
        nothing=("",),
        needs=(Need(),),
        source="core/context/build_context.py:508",
        hint=mark("write it as `jit_config: {{jit_level: O0}}` below `context`"),
        severity=Severity.WARNING,
        since="1.9.0",
        unless=("context.jit_config.jit_level",),
    ),
    *(
        Conditional(
            path=(f"context.{key}",),
            nothing=(False, "OFF"),
            needs=(Need(),),
            source="core/context/build_context.py:508",
            hint=mark("remove it"),
            since="1.9.0",
        )
        for key in ("enable_graph_kernel", "memory_offload")
    ),
)

PATHS = tuple(
    dict.fromkeys(
        path
        for entry in TABLE
        for paths in (entry.path, entry.unless, *(need.path for need in entry.needs))
        for path in paths
    )
)
