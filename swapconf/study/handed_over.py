"""SOURCE: the YAML that a config was made from, for a process that has only the made one, such as a dry run's child.

Its text gives findings their places and its comments; its settings weigh them. So the child says and does what the
command said that started it, wherever it works.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swapconf.config import base_config
from swapconf.config.nodes import Document, from_plain
from swapconf.config.yaml_document import missing
from swapconf.files import json_object
from swapconf.files.writing import replace_text
from swapconf.study.settings import NONE, Settings
from swapconf.upstream import dropped
from swapconf.words.findings import Severity, SwapconfError

VARIABLE = "SWAPCONF_SOURCE"  # the file, for a process that is started under `swapconf run`
FILE = "source.json"


def write(file: Path, document: Document, settings: Settings) -> None:
    """Raises OSError."""
    severity = {rule: chosen.value if chosen is not None else None for rule, chosen in settings.severity.items()}
    content = {
        "file": document.file,
        "text": document.text,
        "included": {one.file: one.text for one in document.included},
        "settings": settings.file,
        "severity": severity,
        "families": dict(settings.families),
        "layers": {name: str(Path(folder).resolve()) for name, folder in settings.layers.items()},
        "apply": sorted(settings.apply),
    }
    replace_text(file, json.dumps(content))


def read(file: Path, made: Document) -> tuple[Document, Settings]:
    """A config with the places of the YAML that it was made from, and the settings of that; itself and none where the
    file does not tell."""
    found = json_object.read(file)
    try:
        like = base_config.of_text(str(found["text"]), str(found["file"]), _reader(_words(found.get("included"))))
    except (KeyError, SwapconfError):
        return made, NONE
    document = from_plain(made.root.plain(), like)
    return document, Settings(
        file=str(found.get("settings", "")),
        families=_words(found.get("families")),
        layers=_words(found.get("layers")),
        severity={rule: Severity(word) if word else None for rule, word in _words(found.get("severity")).items()},
        apply=dropped.KEYS.intersection(found.get("apply", ())),
    )


def _reader(texts: dict[str, Any]) -> base_config.Reader:
    """Gives the included files as they were; their paths mean nothing here."""

    def read(file: str) -> str:
        if file not in texts:
            raise missing(file)
        return str(texts[file])

    return read


def _words(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
