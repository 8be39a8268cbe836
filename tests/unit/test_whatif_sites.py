"""Which primitive of the catalog a kernel is, on templates that fit on a few lines."""

from __future__ import annotations

import pytest

from swapconf.network import LayerTemplate, Operator
from swapconf.simulate.sites import _Cells


def cells(*operators: tuple[str, str]) -> _Cells:
    return _Cells(LayerTemplate(name="dense", cell="Layer", operators=tuple(
        Operator(path=path, kind="primitive", type=kind, saved=True) for path, kind in operators)))


@pytest.mark.parametrize(("operators", "expected"), [
    ([("mlp.turn", "Transpose")], "mlp.turn"),
    ([("mlp.turn", "Transpose"), ("mlp.flat", "Reshape")], "mlp.flat"),
    ([("mlp.add", "AddExt")], None),
])
def test_a_transpose_of_one_sample_is_launched_as_a_reshape(
        operators: list[tuple[str, str]], expected: str | None) -> None:
    assert cells(*operators).path("mlp", "Reshape", frozenset()) == expected
