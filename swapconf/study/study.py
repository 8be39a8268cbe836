"""DOCUMENT + SETTINGS + VERSIONS -> STUDY: the one reading of a training YAML, for every command and for the run.

Reads top to bottom like the README. Whoever asks what a YAML means asks ``study``: it reads the text, resolves it for
the model, and says what is wrong with it as the repository's settings and the comments of the file have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from swapconf.config import base_config, pretrained, yaml_config
from swapconf.config.config import Config, Dialect
from swapconf.config.file_kinds import Kind, kind_of, told
from swapconf.config.nodes import Document, Entry
from swapconf.config.rl_training import MODEL, TRAINED, Part, parts_of
from swapconf.decide import budget
from swapconf.decide.expand import expand
from swapconf.decide.requests import stage_map
from swapconf.decide.rules import check_all, unknown_family
from swapconf.decide.rules.case import Case
from swapconf.decide.strategy import ModuleDecision, Strategy
from swapconf.models import catalog
from swapconf.models.network import Layer, LayerTemplate, Network, for_ranks
from swapconf.models.own_layers import OwnLayers
from swapconf.study import applied, ignores
from swapconf.study.pages import pages
from swapconf.study.settings import NONE, Settings, settings_of
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Origin, Severity, has_errors, in_order
from swapconf.words.phrases import phrase

_NO_FAMILIES: Mapping[str, str] = {}
_UNKNOWN = LayerTemplate(name="unknown", cell="?", operators=())


@dataclass(frozen=True, slots=True)
class Study:
    """All that is known of one document: what it asks for, what that means, and what is wrong with it.

    Attributes:
        findings: Those that no comment and no setting silences, as the settings weigh them. ``network`` and
            ``strategy`` are None when the number of layers is not known, and in PyNative mode, where ``modules`` says
            what is decided.
        settings, versions: What it was read under.
        kind: What the file is for; only one of a training has a strategy of its own.
        parts: By section, the models of a YAML of RL training.
    """

    document: Document
    config: Config
    network: Network | None
    strategy: Strategy | None
    modules: tuple[ModuleDecision, ...]
    findings: tuple[Finding, ...]
    settings: Settings
    versions: Versions
    kind: Kind = Kind.TRAINING
    parts: Mapping[str, Study] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether nothing goes on with this document: a run is not started, nothing is predicted."""
        return has_errors(self.findings)

    @property
    def own_code(self) -> dict[str, Entry]:
        """What names code of the user's own, of the model or of its config, by its path in the YAML."""
        paths = (f"model.{part}.auto_register" for part in ("arch", "model_config"))
        return {path: entry for path in paths if (entry := self.document.entry_at(path)) is not None}

    @property
    def why_no_strategy(self) -> str:
        """What to say where a strategy is needed and there is none."""
        if self.kind is not Kind.TRAINING:
            return self.why_no_training
        if self.config.dialect is Dialect.PYNATIVE:
            return phrase("this is a PyNative config, and swapconf predicts graph mode only")
        return phrase(
            "{place}: the YAML does not give the number of layers (num_layers or num_hidden_layers in "
            "model.model_config, or a config.json in pretrained_model_dir)",
            place=self.config.origin("model.model_config", "model.arch", "model").place,
        )

    @property
    def why_no_training(self) -> str:
        """What to say where one training is needed and the file is for something else; "" where it is for one."""
        if self.kind is Kind.TRAINING:
            return ""
        if self.kind is not Kind.RL:
            return phrase("this is {kind}", kind=phrase(self.kind.value))
        section = next(iter(self.parts), TRAINED[0])
        named = self.document.entry_at(f"{section}.{MODEL}")
        return phrase(
            "this is a YAML of RL training, of several models; `check` and `explain` tell of each: name the training "
            "YAML of one of them, such as {model}, with what stands below `{section}`",
            model=named.value.scalar if named is not None and isinstance(named.value.scalar, str) else "FILE",
            section=section,
        )


def study_document(
    document: Document, versions: Versions, environment: Mapping[str, str], settings: Settings = NONE
) -> Study:
    """Read, resolve and check a document; all its patterns share one budget of time."""
    with budget.shared():
        studied = _studied(document, versions, environment, settings)
        return replace(studied, findings=_effective(studied.findings, studied.document, settings))


def _studied(document: Document, versions: Versions, environment: Mapping[str, str], settings: Settings) -> Study:
    """With all findings, whatever silences them."""
    kind = kind_of(document)
    if kind is Kind.TRAINING:
        return _study_of_training(document, versions, environment, settings)
    parts = parts_of(document) if kind is Kind.RL else ()
    models = {part.name: _study_of_training(part.document, versions, environment, settings) for part in parts}
    of_models = (found for part in parts for found in _of_part(part, models[part.name]))
    read = dict.fromkeys(one for part in parts for one in part.document.included)
    return Study(
        document=replace(document, included=(*document.included, *read)),
        config=Config(file=document.file),
        network=None,
        strategy=None,
        modules=(),
        findings=in_order([*document.findings, *told(document, kind), *_of_rl(document, parts), *of_models]),
        settings=settings,
        versions=versions,
        kind=kind,
        parts=models,
    )


def _of_rl(document: Document, parts: Sequence[Part]) -> Iterator[Finding]:
    if parts:
        from swapconf.config import rl_mistakes  # few YAMLs are of RL training

        yield from rl_mistakes.check(document, parts)


def _of_part(part: Part, studied: Study) -> Iterator[Finding]:
    """Where the YAML of a model cannot be read, one note says so."""
    return (found for found in studied.findings if part.model is not None or found.rule != unknown_family.RULE)


def _study_of_training(
    document: Document,
    versions: Versions,
    environment: Mapping[str, str],
    settings: Settings,
    layers: OwnLayers | None = None,
) -> Study:
    """``layers``: of a model that the catalog does not know, as a run of it has read them."""
    whole, unread = pretrained.merged(document)
    config, wrong = yaml_config.from_document(whole, mindformers=versions.mindformers)
    keys, comments = applied.read({document.file: document.text, **{one.file: one.text for one in document.included}})
    config = replace(config, applied=settings.apply | keys)
    own = layers or settings.layers_of(catalog.classes(config.model.section))
    network = network_of(config, versions, settings.families, own)
    strategy = expand(config, network, versions) if network is not None else None
    case = Case(config=config, versions=versions, network=network, strategy=strategy, environment=environment)
    decided = _modules(config, versions) if config.dialect is Dialect.PYNATIVE else ()
    findings = in_order([*unread, *wrong, *comments, *check_all(case)])
    return Study(document, config, network, strategy, decided, findings, settings, versions)


def _modules(config: Config, versions: Versions) -> tuple[ModuleDecision, ...]:
    from swapconf.decide import modules  # graph mode has none

    return modules.decide(config, modules.modules_of(config, versions.mindformers))


def with_layers(studied: Study, layers: OwnLayers, environment: Mapping[str, str] = _NO_FAMILIES) -> Study:
    """The same with the ``layers`` of a run; itself, where its operators are known or those of a layer are not."""
    network = studied.network
    if network is None or network.is_known or not layers.of_model(network.num_layers):
        return studied
    with budget.shared():
        again = _study_of_training(studied.document, studied.versions, environment, studied.settings, layers)
        return replace(again, findings=_effective(again.findings, again.document, again.settings))


def study_file(path: str | Path, versions: Versions, environment: Mapping[str, str]) -> Study:
    """The same for a file, apart from any settings. Raises SwapconfError when there is nothing to read."""
    return study_document(base_config.of_file(path), versions, environment)


def study_for_check(
    document: Document, environment: Mapping[str, str], mindspore: str | None = None, mindformers: str | None = None
) -> Study:
    """What a document means for the versions that it is written for: those that are given, else those of the settings
    that hold for its file, else those installed here. What is wrong with the settings is among the findings."""
    settings, wrong = settings_of(document.file)
    studied = study_document(document, settings.versions(mindspore, mindformers), environment, settings)
    return replace(studied, findings=in_order([*wrong, *studied.findings]))


def study_for_run(document: Document, environment: Mapping[str, str], settings: Settings | None = None) -> Study:
    """What a document means in a run on this machine, with the versions that are installed here.

    ``settings``: those of its file where the file itself is elsewhere, as in the child of a dry run.
    """
    chosen, wrong = settings_of(document.file) if settings is None else (settings, ())
    studied = study_document(document, Versions.in_use(), environment, chosen)
    other = _with_severities(_other_versions(studied), chosen)
    return replace(studied, findings=in_order([*wrong, *other, *studied.findings]))


def _effective(found: Iterable[Finding], document: Document, settings: Settings) -> tuple[Finding, ...]:
    """The findings that neither a comment of the text nor a setting silences, in order."""
    others = {one.file: one.text for one in document.included}
    texts = {document.file: document.text, **others}
    comments = [comment for file, text in texts.items() for comment in ignores.read(text, file)]
    unsure = texts if document.is_changed else others
    left = ignores.apply(in_order(found), comments, pages() if comments else (), unsure)
    return in_order(_with_severities(left, settings))


def _with_severities(findings: Iterable[Finding], chosen: Settings) -> Iterator[Finding]:
    """The findings as the settings weigh them; those of a rule that is off are left out."""
    for finding in findings:
        severity = chosen.severity.get(finding.rule, finding.severity)
        if severity is not None:
            yield replace(finding, severity=severity)


def _other_versions(studied: Study) -> Iterator[Finding]:
    """The settings name versions that the YAML is checked for, and the run has others."""
    for name, asked, used in (
        ("mindspore", studied.settings.mindspore, studied.versions.mindspore),
        ("mindformers", studied.settings.mindformers, studied.versions.mindformers),
    ):
        if asked is not None and asked != used:
            yield Finding(
                origin=Origin(file=studied.settings.file),
                rule="settings",
                severity=Severity.WARNING,
                message=phrase(
                    "the settings name {package} {asked}, and {used} is what runs here",
                    package=name,
                    asked=asked,
                    used=used,
                ),
                hint=phrase("what is decided holds for {used}; correct the settings or the installation", used=used),
            )


def network_of(
    config: Config, versions: Versions, families: Mapping[str, str] = _NO_FAMILIES, own: OwnLayers | None = None
) -> Network | None:
    """The network that the catalog knows for a config; one without operators for an unknown family.

    ``families``: by name of a model class that it does not know, the family whose layers it has; ``own``: others.
    """
    count = config.model.num_layers
    if count is None or config.dialect is Dialect.PYNATIVE:  # the catalog holds operators of graph mode
        return None
    family = catalog.identify(config.model.section, use_legacy=config.model.legacy, also=families)
    if family is None:
        return Network(
            family=None,
            layers=_layers(config, (own.of_model(count) if own is not None else ()) or (_UNKNOWN,) * count),
            called=own.called if own is not None else {},
            near=catalog.near(config.model.section, use_legacy=config.model.legacy),
            unknown=catalog.unknown(config.model.section, use_legacy=config.model.legacy),
        )
    # some cells are built otherwise when operators are selected for recompute; mindformers passes it on like this
    chosen = {"recompute": {"select_recompute": bool(config.recompute.select)}}
    settings = {**config.model.settings, "parallel_config": chosen}
    in_catalog = catalog.load(family, versions.mindformers)
    templates, extra = in_catalog.templates_for(settings, count), in_catalog.extra_layers_for(settings)
    pipeline = config.pipeline
    fitted = {
        template: for_ranks(template, pipeline.model_parallel, pipeline.sequence_parallel)
        for template in {*templates, *(one for _, one in extra)}
    }
    templates = tuple(fitted[template] for template in templates)
    extra = tuple((name, fitted[template]) for name, template in extra)
    layers = _layers(config, templates)
    if layers:  # multi-token prediction takes the settings of the last layer
        layers += tuple(replace(layers[-1], name=name, template=template) for name, template in extra)
    approximated = in_catalog.approximated(settings)
    if extra and templates and templates[-1].name == "dense":  # built like the last decoder layer; the catalog has MoE
        approximated = (*approximated, "first_k_dense_replace")
    return Network(
        family=family,
        layers=layers,
        flash_attention=in_catalog.flash_attention,
        approximated=approximated,
        made_with=in_catalog.made_with["mindformers"],
    )


def _layers(config: Config, templates: tuple[LayerTemplate, ...]) -> tuple[Layer, ...]:
    stages = stage_map(config, len(templates))
    return tuple(
        Layer(
            index=index,
            name=str(index),
            template=template,
            stage=stages.pipeline_stage(index),
            interleave=stages.places[index][0],
        )
        for index, template in enumerate(templates)
    )
