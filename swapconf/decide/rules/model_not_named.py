r"""model-not-named: a YAML that does not name the classes of its model.

mindformers needs two. Of an mcore model it takes the class of the config from ``model_type`` of ``model.model_config``,
which is text, and that of the network from ``architectures``, text or a list of it; where ``pretrained_model_dir`` is
named, both may stand in its config.json instead. Without the first it stops with "Can't find class. class type = None",
without the second with "The type of model_config.architectures should be str or list of str"
(``MindFormerRegister.get_instance_type_from_cfg``; the same from 1.6.0 to 2.1.0, in every run mode). Of a legacy model
it takes both from ``type``, of ``model.model_config`` and of ``model.arch``; without it, it stops with "must contain
the key "type"", without ``arch`` with "Cfg must be a Config" (``MindFormerRegister.get_instance_from_cfg``), as for its
own template for models of any kind. A warning only: a script of one's own may name the model, as mindformers' tests set
``pretrained_model_dir`` for such YAMLs, or build it. A dry run has the YAML alone, and is not started (``no-model``). A
YAML without ``model.model_config`` is taken for a part of one.

Fails: ``model_config: {model_type: qwen3}``.
Passes: ``model_config: {model_type: qwen3, architectures: Qwen3ForCausalLM}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config, Model
from swapconf.decide.rules.case import Case, finding
from swapconf.models import catalog
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

RULE = "model-not-named"
_SECTION = "model.model_config"
_EXAMPLES = {False: "qwen3", True: "llama"}
_LISTED = "architectures"
_NAMES = {"qwen3": "Qwen3", "llama": "Llama"}


def check(case: Case) -> Iterator[Finding]:
    yield from nameless(case.config)


def nameless(config: Config) -> Iterator[Finding]:
    model = config.model
    if _SECTION not in config.origins or (model.has_unread_folder and not model.legacy):
        return
    family = catalog.identify(model.section, use_legacy=model.legacy)
    example = family or _EXAMPLES[model.legacy]
    names = catalog.class_names(example)
    missing = [path for path in names if not _is_named(model, path)]
    if not missing:
        return
    lines = joined(", ", [f"`{path}: {names[path]}`" for path in missing])
    yield finding(
        RULE,
        Severity.WARNING,
        config.origin(
            *(f"model.{path}" for path in missing), *(f"model.{path.partition('.')[0]}" for path in missing), _SECTION
        ),
        phrase(
            "`model` names no class in {keys}, without which mindformers stops, and a dry run; only a script of one's "
            "own that names or builds the model goes on",
            keys=joined(", ", [f"`{path}`" for path in missing]),
        ),
        phrase("write {lines} there", lines=lines)
        if family
        else phrase("write there what for {model} is {lines}", model=_NAMES[example], lines=lines)
        if model.legacy
        else phrase(
            "write there what for {model} is {lines}, or name a folder with a config.json in `pretrained_model_dir`",
            model=_NAMES[example],
            lines=lines,
        ),
    )


def _is_named(model: Model, path: str) -> bool:
    """mindformers takes the first of a list, and of ``architectures`` alone."""
    part, _, key = path.partition(".")
    section = model.section.get(part)
    name = section.get(key) if isinstance(section, dict) else None
    if key == _LISTED and isinstance(name, list):
        name = name[0] if name else None
    return isinstance(name, str) and bool(name)
