"""TRAINER CLASS -> the same, which recomputes and swaps on one card as mindformers does on several. [mindformers]

There it calls `apply_ac` while it parallelizes the model, which is behind building it and before its parameters get
memory; on one card it does neither. Source: mindformers 2.0.0 and 2.1.0, pynative/trainer/trainer.py and
pynative/base_models/gpt/parallelize.py, _apply_spmd_parallelism.
"""

from __future__ import annotations

from functools import wraps
from typing import Any


def apply_on_one_card(trainer_class: Any) -> None:
    from mindformers.pynative.base_models.gpt.gpt_model import GPTModel
    from mindformers.pynative.distributed.activation_checkpoint import apply_ac

    build = trainer_class._create_model

    @wraps(build)
    def create_model(trainer: Any, *values: Any, **named: Any) -> Any:
        model = build(trainer, *values, **named)
        config = trainer.config
        inner = next(cell for _, cell in model.cells_and_names() if isinstance(cell, GPTModel))
        apply_ac(
            inner.decoder,
            config.recompute,
            config.recompute_comm,
            config.swap,
            config.parallelism.pipeline_parallel,
            mtp_block=getattr(inner, "mtp", None),
        )
        return model

    trainer_class._create_model = create_model
