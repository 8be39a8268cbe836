"""STUDY + LEVEL + ENVIRONMENT -> FINDINGS: configs of which there is no dry run here, each with the reason.

``jit_level: O2`` hands the graph to CANN's graph engine, which plans the memory itself; without a CANN MindSpore 2.9.0
cannot even compile it ("Load backend failed"). A YAML for prediction has no ``optimizer``, without which mindformers
cannot train, and a dry run is one of training; where it has one, ``run_mode`` says that it is none for training, and
mindformers 1.9.0 then fills in nothing that a training needs (``ConfigTemplate.apply_template``, when it reads the
file); nor where none is said, so that a training then stops at what is missing (measured with 1.9.0). Nor is there one
with an optimizer that mindformers no longer has, where no code is told that may bring it. An mcore model whose
config.json cannot be read is not built either (``merge_model_config`` of 1.9.0 opens it whatever the YAML says itself;
legacy models do not need it), nor a model that nothing names, nor one of ``auto_register`` without the folder with its
code (``MindFormerRegister.auto_register``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from swapconf.config import pretrained
from swapconf.config.config import Dialect
from swapconf.decide.rules import model_not_named, optimizer_gone
from swapconf.dryrun.cann import find_cann
from swapconf.dryrun.environment import without_shim
from swapconf.dryrun.pynative import refusals
from swapconf.study.study import Study
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE, NO_TRAINING = "graph-engine-no-dry-run", "no-training"
NO_MODEL, NO_CODE, NO_OPTIMIZER = "no-model", "no-model-code", "no-optimizer"
_GRAPH_ENGINE = "O2"
_LEARNING_RATES = ("lr_schedule", "grouped_lr_schedule", "optimizer.learning_rate")
_READS_MONITOR = "1.8.0"


def no_dry_run(study: Study, level: int, environment: Mapping[str, str], register_path: str = "") -> Iterator[Finding]:
    """Errors. ``register_path``: the folder with the code of models that mindformers does not have, "" for none."""
    config = study.config
    if study.why_no_training:
        yield Finding(
            origin=config.origin(""),
            rule=NO_TRAINING,
            severity=Severity.ERROR,
            message=study.why_no_training,
            hint=phrase("a dry run is one of training; name a YAML for training, with `optimizer` and `lr_schedule`"),
        )
        return
    yield from refusals.refusals(study, level)
    if config.dialect is Dialect.PYNATIVE:
        return
    yield from _no_training(study)
    yield from _no_optimizer(study, register_path)
    yield from _no_model(study)
    yield from _no_code(study, register_path)
    if config.runtime.jit_level == _GRAPH_ENGINE and not find_cann(without_shim(environment)):
        yield Finding(
            origin=config.origin("context.jit_config.jit_level", "context.jit_level"),
            rule=RULE,
            severity=Severity.ERROR,
            message=phrase(
                "jit_level O2 leaves the graph and its memory to CANN's graph engine, and there is no CANN here: "
                "MindSpore cannot compile it"
            ),
            hint=phrase(
                "ask for the graph that MindSpore runs kernel by kernel: --set context.jit_config.jit_level=O1, or O0 "
                "without fused kernels"
            ),
        )


def _no_training(study: Study) -> Iterator[Finding]:
    config, mode = study.config, study.document.entry_at("run_mode")
    if study.document.entry_at("optimizer") is None:
        yield Finding(
            origin=config.origin("optimizer") if mode is None else study.document.key_origin(mode, "run_mode"),
            rule=NO_TRAINING,
            severity=Severity.ERROR,
            message=phrase("there is no `optimizer`, as in a YAML for prediction: nothing can be trained with it"),
            hint=phrase("a dry run is one of training; name a YAML for training, with `optimizer` and `lr_schedule`"),
        )
    elif mode is not None and config.mode_without_gradient:
        yield Finding(
            origin=study.document.key_origin(mode, "run_mode"),
            rule=NO_TRAINING,
            severity=Severity.ERROR,
            message=phrase(
                "with `run_mode: {mode}` mindformers fills in nothing that a training needs, and stops when it is to "
                "train",
                mode=config.mode_without_gradient,
            ),
            hint=phrase("a dry run is one of training; where the YAML is for that, too: --set run_mode=train"),
        )
    elif mode is None and (missing := list(_not_filled_in(study))):
        yield Finding(
            origin=config.origin("run_mode"),
            rule=NO_TRAINING,
            severity=Severity.ERROR,
            message=phrase(
                "without `run_mode` mindformers fills in nothing that a training needs, and stops where there is no "
                "{missing}",
                missing=", ".join(f"`{key}`" for key in missing),
            ),
            hint=phrase("say that it is one of training: --set run_mode=train, or in the YAML"),
        )


def _not_filled_in(study: Study) -> Iterator[str]:
    """What mindformers reads in each training without looking whether it is there (``trainer/base_trainer.py``)."""
    document = study.document
    if document.entry_at("runner_wrapper") is None:
        yield "runner_wrapper"
    if all(document.entry_at(key) is None for key in _LEARNING_RATES):
        yield "lr_schedule"
    if document.entry_at("monitor_config") is None and reached(study.versions.mindformers, _READS_MONITOR):
        yield "monitor_config"


def _no_optimizer(study: Study, register_path: str) -> Iterator[Finding]:
    """`check` gives it less weight, as code that is loaded may bring one of that name."""
    has_code = register_path or study.own_code
    for finding in () if has_code else study.findings:
        if finding.rule == optimizer_gone.RULE:
            yield replace(
                finding,
                rule=NO_OPTIMIZER,
                severity=Severity.ERROR,
                message=phrase(
                    "a dry run has mindformers build the optimizer of the YAML: {reason}", reason=finding.message
                ),
            )


def _no_model(study: Study) -> Iterator[Finding]:
    """`check` gives the reason less weight, as a script of one's own may name the model; a dry run has none."""
    unread = () if study.config.model.legacy else pretrained.merged(study.document)[1]
    for finding in (*unread, *model_not_named.nameless(study.config)):
        yield replace(
            finding,
            rule=NO_MODEL,
            severity=Severity.ERROR,
            message=phrase(
                "a dry run has mindformers build the model of the YAML, which stops for what `{rule}` says",
                rule=finding.rule,
            ),
        )


def _no_code(study: Study, register_path: str) -> Iterator[Finding]:
    """Of the parts whose code no folder has, the first where no folder is told, else each. mindformers 1.9.0 reads
    ``module.Class`` from ``module.py`` in it (``get_class_from_dynamic_module``)."""
    for path, entry in study.own_code.items():
        named = str(entry.value.plain())
        file = Path(register_path, named.rpartition("--")[2].partition(".")[0] + ".py")
        if register_path and ("." not in named or file.is_file()):
            continue
        yield Finding(
            origin=study.document.key_origin(entry, path),
            rule=NO_CODE,
            severity=Severity.ERROR,
            message=phrase("`auto_register` names {name}, and there is no file {file}", name=named, file=file)
            if register_path
            else phrase("`auto_register` names code of a model, and no folder is told in which it lies"),
            hint=phrase(
                "name the folder with the variable REGISTER_PATH, or with `--register-path DIR`, as for "
                "run_mindformer.py"
            ),
        )
        if not register_path:
            return
