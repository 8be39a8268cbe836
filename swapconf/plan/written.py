"""TEXT + CONFIG -> TEXT: a YAML whose sections for swap and recompute say what was planned; every other byte stays.

The YAML keeps its own form: `swap_config`, or the keys of `model.model_config` for the models that read them there;
`swap` and `recompute` of PyNative.
Only keys whose values change are touched; what stood in a removed or replaced value as a comment stays as a comment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from swapconf.config import base_config, yaml_config
from swapconf.config.config import Config, Dialect, ListedSwap
from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, PYNATIVE_SECTIONS, RECOMPUTE_KEYS
from swapconf.config.nodes import Document, Entry, Node
from swapconf.config.rewriting import CannotRewrite, asked, refuse_elsewhere, reread, without_places
from swapconf.config.spans import SourceText
from swapconf.config.yaml_comments import comments, with_comment
from swapconf.config.yaml_document import parse
from swapconf.config.yaml_edits import with_keys
from swapconf.config.yaml_text import recompute_sections, swap_section
from swapconf.decide.rules import r3_list_meaning
from swapconf.decide.rules.case import Case
from swapconf.study.study import network_of
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Severity, SwapconfError
from swapconf.words.phrases import phrase

MARK = "planned by swapconf"  # what the comment of a plan begins with, by which the next plan finds it

_LAYERS = f"swapconf: ignore[{r3_list_meaning.RULE}] {MARK}: these are layers"
_SWAP, _RECOMPUTE = GRAPH_SECTIONS
_MODEL_CONFIG = ("model", "model_config")
_NATIVE_KEYS = {  # section -> its keys
    "swap": ("enable", "default_prefetch", "layer_swap", "op_swap"),
    "recompute": ("mode", "full_recompute_layer", "select_module", "exclude_op"),
}
_FIELDS = {  # key -> field of RecomputeConfig
    "recompute": "full",
    "select_recompute": "select",
    "select_comm_recompute": "select_comm",
    "select_recompute_exclude": "select_exclude",
    "select_comm_recompute_exclude": "select_comm_exclude",
}
_DEFAULTS = {"mp_comm_recompute": True}  # of a key of recompute_config that is not there; False for all others


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a section stands, or will: the path of its mapping, and the names of its keys there, by canonical name."""

    path: tuple[str, ...]
    names: Mapping[str, str]

    def entries(self, root: Node) -> dict[str, Entry]:
        """The keys that are there, by canonical name."""
        node: Node | None = root
        for step in self.path:
            node = node.get(step) if node is not None else None
        found = node.entries if node is not None else {}
        return {key: found[name] for key, name in self.names.items() if name in found}


def write(text: str, document: Document, made: Config, comment: str) -> str:
    """The text with the swap and recompute of ``made`` in it, and ``comment`` in one line above.

    ``document``: what was parsed from the text. A comment that an earlier plan left is replaced. Raises CannotRewrite
    where the form of the YAML does not allow it.
    """
    before, _ = yaml_config.from_document(document)
    if (before.dialect is Dialect.PYNATIVE) != (made.dialect is Dialect.PYNATIVE):
        raise CannotRewrite(
            phrase("either the plan or the YAML is of PyNative mode, where prefetches count layers"),
            phrase("plan from this YAML itself"),
        )
    if document.is_changed:
        raise CannotRewrite(
            phrase("the command line changes values of this YAML"), phrase("write them into the YAML, then plan")
        )
    form = _written_natively if before.dialect is Dialect.PYNATIVE else _written
    try:
        written = form(text, document, before, made, comment)
    except (yaml.YAMLError, SwapconfError):
        raise CannotRewrite(
            phrase("what is written would not be readable"),
            phrase("an anchor or a merge key may reach into these sections: write their values out"),
        ) from None
    _verify(text, written, document, made)
    return written


def _written(text: str, document: Document, before: Config, made: Config, comment: str) -> str:
    swap, recompute = _swap_place(document, before), _recompute_place(document, before)
    new, gone = _swap_keys(before, made, swap.entries(document.root))
    text = _edited(text, swap, new, gone)
    text = _edited(text, recompute, _recompute_keys(before, made, recompute.entries(document.root)), set())
    asks = made.recompute.full is not None or bool(made.recompute.select)
    text = _commented(text, [place for place, on in ((swap, made.swap_on), (recompute, asks)) if on], comment)
    return _without_doubt(text, document.file, made)


def _edited(
    text: str, place: _Place, new: Mapping[str, Any], gone: set[str], beside: Sequence[str] = GRAPH_SECTIONS
) -> str:
    named = {place.names[key]: value for key, value in new.items()}
    return with_keys(text, place.path, named, [place.names[key] for key in gone], beside=beside)


def _written_natively(text: str, document: Document, before: Config, made: Config, comment: str) -> str:
    """The same of a PyNative YAML; communication and what else stands in its sections stay."""
    asks = {"swap": made.swap_on, "recompute": made.recompute.full is not None or bool(made.recompute.select)}
    places = {name: _Place((name,), {key: key for key in keys}) for name, keys in _NATIVE_KEYS.items()}
    wanted = {**swap_section(made), **recompute_sections(made)}
    for name, place in places.items():
        here = place.entries(document.root)
        if not asks[name] and _asks_for_nothing(here):
            continue
        new = {
            key: value for key, value in wanted[name].items() if key not in here or not _says(here[key], value, False)
        }
        stale = {key for key in here if key not in wanted[name] and key != "default_prefetch"}
        text = _edited(text, place, new, stale, PYNATIVE_SECTIONS)
    return _commented(text, [places[name] for name, on in asks.items() if on], comment)


def _asks_for_nothing(here: Mapping[str, Entry]) -> bool:
    """Of a section of PyNative: it is off, and lists nothing that would be in effect otherwise."""
    return all(key in ("enable", "mode", "default_prefetch") for key in here) and all(
        here[key].value.plain() in (False, None, "None") for key in ("enable", "mode") if key in here
    )


# --- where ----------------------------------------------------------------------------------------------------------


def _swap_place(document: Document, before: Config) -> _Place:
    own, settings = document.root.entries.get(_SWAP), _settings(document)
    inner = {
        key: next((name for name in names if settings is not None and name in settings.entries), "")
        for key, names in MCORE_SWAP_KEYS.items()
    }
    filled_in = own is not None and own.value.plain() == yaml_config.FILLED_IN[_SWAP]
    given = own is not None and bool(own.value.entries)
    if before.model.legacy or settings is None or (given and not (filled_in and any(inner.values()))):
        return _Place((_SWAP,), {key: key for key in MCORE_SWAP_KEYS})
    return _Place(_MODEL_CONFIG, {key: name or key for key, name in inner.items()})


def _recompute_place(document: Document, before: Config) -> _Place:
    own, settings = document.root.entries.get(_RECOMPUTE), _settings(document)
    inner = settings is not None and any(key in settings.entries for key in RECOMPUTE_KEYS)
    top = before.model.legacy or not inner or (own is not None and bool(own.value.entries))
    return _Place((_RECOMPUTE,) if top else _MODEL_CONFIG, {key: key for key in RECOMPUTE_KEYS})


def _settings(document: Document) -> Node | None:
    model = document.root.get("model")
    settings = model.get("model_config") if model is not None else None
    return settings if settings is not None and settings.kind == "mapping" else None


# --- what -----------------------------------------------------------------------------------------------------------


def _swap_keys(before: Config, made: Config, here: Mapping[str, Entry]) -> tuple[dict[str, Any], set[str]]:
    """The keys that get another value, and those that go."""
    wanted = swap_section(made)[_SWAP]
    new = {key: value for key, value in wanted.items() if not _says(here.get(key), value, False)}
    if isinstance(made.swap, ListedSwap) and isinstance(before.swap, ListedSwap):
        for key in ("layer_swap", "op_swap"):
            if without_places(getattr(made.swap, key)) == without_places(getattr(before.swap, key)) and key in here:
                new.pop(key, None)
    stale = {"layer_swap", "op_swap"} | ({"default_prefetch"} if isinstance(made.swap, ListedSwap) else set())
    gone = {key for key in stale - set(wanted) if key in here and here[key].value.plain() is not None}
    if len(gone) == len(here) and gone:  # a section that is left empty would ask for nothing, but look like a mistake
        new["swap"] = wanted["swap"]
    return new, gone


def _recompute_keys(before: Config, made: Config, here: Mapping[str, Entry]) -> dict[str, Any]:
    """The keys that get another value; lists mean something else as soon as swap is switched (R3)."""
    wanted = recompute_sections(made)[_RECOMPUTE]
    same = {
        key
        for key, name in _FIELDS.items()
        if before.swap_on == made.swap_on
        and without_places(getattr(before.recompute, name)) == without_places(getattr(made.recompute, name))
    }
    return {
        key: value
        for key, value in wanted.items()
        if key not in same and not _says(here.get(key), value, _DEFAULTS.get(key, False))
    }


def _says(entry: Entry | None, value: Any, default: bool) -> bool:
    """Whether a key, or its absence, says a value already; patterns come in order."""
    given: Any = entry.value.plain() if entry is not None else None
    if given is None:
        return bool(value == default)
    same = type(given) is type(value) and given == value
    return same and (not isinstance(value, dict) or list(given) == list(value))


def _commented(text: str, places: Sequence[_Place], comment: str) -> str:
    """The comment above the first of what is asked for; where nothing is, no comment, and none of an earlier plan."""
    said = " ".join(comment.split())
    root, source = parse(text, "").root, SourceText(text)
    above = []
    for place in places:
        keys, entries = _above(root, place.path), place.entries(root).values()
        if place.path == _MODEL_CONFIG and keys:  # not those that a merge key brings
            keys += sorted((entry for entry in entries if entry.line > keys[-1].line), key=lambda entry: entry.line)[:1]
        begun = [entry.line for entry in keys if source.begins_line(source.at(entry.line, entry.column))]
        above += begun[-1:] if entries else []
    line = min(above) if above else 1 if places else None
    return with_comment(text, line, said if said.startswith(MARK) else f"{MARK}: {said}", mark=MARK)


def _above(root: Node, path: Sequence[str]) -> list[Entry]:
    """The keys on the way to a mapping, as far as they are there."""
    found: list[Entry] = []
    node = root
    for step in path:
        if step not in node.entries:  # in an included file
            break
        found.append(node.entries[step])
        node = found[-1].value
    return found


def _without_doubt(text: str, file: str, made: Config) -> str:
    """With swap on, a short list of layers may look like counts, which nobody but its author can tell: it says so.
    ``made``: with the stages and layers of the run, which the command line may have changed."""
    text = with_comment(text, None, "", mark=_LAYERS)
    written, _ = yaml_config.from_document(base_config.of_text(text, file))
    config = replace(written, pipeline=made.pipeline, model=made.model)
    case = Case(config=config, versions=Versions(), network=network_of(config, Versions()))
    doubts = [
        found
        for found in r3_list_meaning.check(case)
        if found.severity is not Severity.NOTE and found.origin.file == file
    ]
    return with_comment(text, doubts[0].origin.line, _LAYERS, mark=_LAYERS) if doubts else text


# --- whether --------------------------------------------------------------------------------------------------------


def _verify(text: str, written: str, document: Document, made: Config) -> None:
    """Raises CannotRewrite unless the new text says ``made``, and all else is as before, comments included."""
    config = reread(written, document, None, yaml_config.ANY_VERSION)
    if asked(config) != asked(made):
        refuse_elsewhere(document)
        raise CannotRewrite(
            phrase("the rewritten sections would not mean what was decided"), phrase("give each key a line of its own")
        )
    known = _mistakes(document)
    for rule, finding in _mistakes(base_config.of_text(written, document.file)).items():
        if rule not in known:
            raise CannotRewrite(phrase("what is written would be a mistake: {why}", why=finding.message), finding.hint)
    lost = _others(text) - _others(written)
    if lost:
        raise CannotRewrite(
            phrase("the comment '{comment}' would be lost", comment=next(iter(lost))),
            phrase("give it a line of its own, outside of lists"),
        )


def _mistakes(document: Document) -> dict[str, Finding]:
    """By rule, what of it cannot be read as it is meant."""
    _, findings = yaml_config.from_document(document)
    return {finding.rule: finding for finding in findings if finding.severity is Severity.ERROR}


def _others(text: str) -> Counter[str]:
    """The comments that no plan has left."""
    ours = f"# {MARK}", f"# {_LAYERS}"
    return Counter(said for comment in comments(text) if not (said := comment.text.rstrip()).startswith(ours))
