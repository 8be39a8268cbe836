r"""model-not-named: nothing says which model an mcore YAML trains.

mindformers 1.9.0 takes it from ``model_type`` or ``architectures`` of ``model.model_config``, or from the config.json
in ``pretrained_model_dir``; without any of them it stops with "Can't find class. class type = None"
(``MindFormerRegister.get_cls``). A warning only: a script of one's own may build the model. A YAML without
``model.model_config`` is taken for a part of one.

Fails: ``model_config: {num_hidden_layers: 4}``. Passes: ``model_config: {model_type: qwen3, num_hidden_layers: 4}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "model-not-named"
_NAMES = ("type", "model_type", "architectures")


def check(case: Case) -> Iterator[Finding]:
    yield from nameless(case.config)


def nameless(config: Config) -> Iterator[Finding]:
    """The warning; a dry run, which builds the model as mindformers' trainer does, makes it an error."""
    model = config.model
    arch = model.section.get("arch")
    named = any(model.settings.get(key) for key in _NAMES) or (isinstance(arch, dict) and arch.get("type"))
    partial = "model.model_config" not in config.origins
    if model.legacy or named or partial or model.has_folder:
        return
    yield finding(
        RULE,
        Severity.WARNING,
        config.origin("model.model_config"),
        told(),
        phrase("write `model_type` there (qwen3, deepseek_v3, ...); without it swapconf knows no operators either"),
    )


def told() -> str:
    """What is missing, in words that a dry run uses, too."""
    return phrase(
        "the YAML names no model: model.model_config has no `model_type`, and there is no pretrained_model_dir"
    )
