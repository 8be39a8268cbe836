"""NAME -> SCHEMA: our JSON Schemas, and what checks a value against one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_SCHEMAS = Path(__file__).with_name("schema")


@cache
def validator(name: str) -> Validator:
    """The draft-07 validator of one of our schemas."""
    from jsonschema.validators import Draft7Validator  # heavy; only when a section is there to be checked

    return Draft7Validator(schema(name))


def schema(name: str) -> dict[str, Any]:
    """One of our schemas, read anew: the caller may change it."""
    loaded: dict[str, Any] = json.loads((_SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return loaded
