"""What is known of MindSpore and mindformers by version (knowledge.json): documented unless measured otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from typing import Any

MEASURED = {"mindspore": "2.9.0", "mindformers": "1.9.0"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A behaviour and where it is known from."""

    value: int
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The versions that a config will run with."""

    mindspore: str = MEASURED["mindspore"]
    mindformers: str = MEASURED["mindformers"]

    @classmethod
    def in_use(cls) -> Versions:
        """What is installed here; where nothing is (a laptop), the pair that was measured."""
        return cls(**{name: _installed(name) or version for name, version in MEASURED.items()})

    def fact(self, name: str) -> Fact:
        """What holds in these versions. Raises KeyError for a name that is not in the data."""
        entry = _data()[name]
        for package, version in (("mindspore", self.mindspore), ("mindformers", self.mindformers)):
            if version in entry.get(package, {}):
                return Fact(**entry[package][version])
        return Fact(**entry["default"])


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def _data() -> dict[str, Any]:
    text = resources.files("swapconf.resolve").joinpath("knowledge.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
