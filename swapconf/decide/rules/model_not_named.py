r"""model-not-named: an mcore YAML that does not name the classes of its model.

mindformers takes the class of the config from ``model_type`` of ``model.model_config``, which is text, and that of the
network from ``architectures``, text or a list of it; where ``pretrained_model_dir`` is named, both may stand in its
config.json instead. It needs both: without the first it stops with "Can't find class. class type = None", without the
second with "The type of model_config.architectures should be str or list of str"
(``MindFormerRegister.get_instance_type_from_cfg``; the same from 1.6.0 to 2.1.0, in every run mode, for legacy models
never). A warning only: a script of one's own may name the model, as mindformers' tests set ``pretrained_model_dir`` for
such YAMLs, or build it. A dry run has the YAML alone, and is not started (``no-model``). A YAML without
``model.model_config`` is taken for a part of one.

Fails: ``model_config: {model_type: qwen3}``.
Passes: ``model_config: {model_type: qwen3, architectures: Qwen3ForCausalLM}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config
from swapconf.decide.rules.case import Case, finding
from swapconf.models import catalog
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

RULE = "model-not-named"
_SECTION = "model.model_config"
_EXAMPLE = "qwen3"


def check(case: Case) -> Iterator[Finding]:
    yield from nameless(case.config)


def nameless(config: Config) -> Iterator[Finding]:
    model = config.model
    if model.legacy or model.has_unread_folder or _SECTION not in config.origins:
        return
    kind, classes = model.settings.get("model_type"), model.settings.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else classes
    missing = [key for key, name in (("model_type", kind), ("architectures", first)) if not _is_name(name)]
    if not missing:
        return
    family = catalog.identify(model.section, use_legacy=False)
    names = catalog.class_names(family or _EXAMPLE)
    lines = joined(", ", [f"`{key}: {names[key]}`" for key in missing])
    yield finding(
        RULE,
        Severity.WARNING,
        config.origin(*(f"{_SECTION}.{key}" for key in missing), _SECTION),
        phrase(
            "model.model_config names no class in {keys}, without which mindformers stops, and a dry run; only a "
            "script of one's own that names or builds the model goes on",
            keys=joined(", ", [f"`{key}`" for key in missing]),
        ),
        phrase("write {lines} there", lines=lines)
        if family
        else phrase(
            "write there what for Qwen3 is {lines}, or name a folder with a config.json in `pretrained_model_dir`",
            lines=lines,
        ),
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)
