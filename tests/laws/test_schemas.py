"""What does not fit a schema is what jsonschema says, which swapconf does without because it is slow to import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, ValidationError

from swapconf.files.schemas import fits, misfits, schema
from tests.helpers import ROOT

NAMES = sorted(file.name.partition(".")[0] for file in (ROOT / "swapconf/files/schema").glob("*.json"))
NAMES.remove("training")  # for editors; it refers to the others
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.0, 0.5, 10**19, float("inf")),
    *("", "5", "0-19", "full", "error", "True", [], {}),
)


def keys_of(rule: Any) -> Iterator[str]:
    if isinstance(rule, dict):
        for key, value in rule.items():
            if key in ("properties", "definitions"):
                yield from value
            yield from keys_of(value)
    for item in rule if isinstance(rule, list) else ():
        yield from keys_of(item)


def of_schema(rule: Any, whole: Any) -> st.SearchStrategy[Any]:
    """Values of which most parts have the form that a schema asks for."""
    if "$ref" in rule:
        return of_schema(whole["definitions"][rule["$ref"].rpartition("/")[2]], whole)
    choices = [of_schema(choice, whole) for choice in [*rule.get("anyOf", ()), rule.get("then", {})] if choice]
    if "properties" in rule or isinstance(rule.get("additionalProperties"), dict):
        known = {key: of_schema(part, whole) for key, part in rule.get("properties", {}).items()}
        others = rule.get("additionalProperties")
        more = of_schema(others, whole) if isinstance(others, dict) else ODDITIES
        choices += [st.fixed_dictionaries({}, optional={**known, "other": more})]
        choices += [st.fixed_dictionaries(known)]
    if "items" in rule:
        choices += [st.lists(of_schema(rule["items"], whole), max_size=3)]
    return st.one_of(*choices, ODDITIES)


def loose(keys: list[str]) -> st.SearchStrategy[Any]:
    """Values of any form, with keys that the schema knows somewhere."""
    return st.recursive(
        ODDITIES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=12,
    )


ODDITIES = st.sampled_from(ODD)
ANYTHING = {
    name: of_schema(schema(name), schema(name)) | loose(sorted({*keys_of(schema(name)), "x", "matrix_tflops"}))
    for name in NAMES
}


def leaves(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    for error in errors:
        yield from leaves(error.context) if error.context else [error]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_does_not_fit_is_what_jsonschema_says(name: str, data: st.DataObject) -> None:
    value = data.draw(ANYTHING[name])
    found = sorted(misfits(name, value), key=lambda misfit: repr((misfit.place, misfit.keyword, misfit.limit)))
    errors = leaves(Draft7Validator(schema(name)).iter_errors(value))
    expected = sorted(errors, key=lambda error: repr((tuple(error.absolute_path), error.validator, error.message)))
    assert [(misfit.place, misfit.keyword, misfit.value, misfit.rule) for misfit in found] == [
        (tuple(error.absolute_path), error.validator, error.instance, error.schema) for error in expected
    ]
    for misfit, error in zip(found, expected, strict=True):
        if misfit.keyword == "required":
            assert error.message == f"{misfit.limit!r} is a required property"
        elif misfit.keyword == "additionalProperties":
            assert all(repr(key) in error.message for key in misfit.limit)
        else:
            assert misfit.limit == error.validator_value
    assert fits(name, value, schema(name)) == (not expected)


def test_a_keyword_that_is_not_known_is_never_passed_over() -> None:
    with pytest.raises(KeyError, match="maxProperties"):
        fits("swap_config", {}, {"maxProperties": 1})
