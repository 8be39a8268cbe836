"""What is known of MindSpore and mindformers by version (knowledge.json): documented unless measured otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
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
    """The version of a package, without importing it; by the name of its dist-info folder, which costs least."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    for folder in Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"):
        return folder.name.removesuffix(".dist-info").removeprefix(f"{package}-")
    from importlib import metadata  # slow to import, and only needed for unusual installations

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return loaded
