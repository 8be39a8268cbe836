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


def test_a_view_that_its_own_reader_reads_is_no_other_one_that_has_such_a_reader() -> None:
    """Both Linears end with a Reshape that an Add of the layer reads; of the second one a gradient reads it."""
    def view(cell: str, consumers: tuple[str, ...], *, saved: bool) -> Operator:
        return Operator(path=f"{cell}.reshape", kind="primitive", type="Reshape", saved=saved, consumers=consumers)

    known = _Cells(LayerTemplate(name="dense", cell="Layer", operators=(
        Operator(path="add", kind="primitive", type="Add", saved=True),
        view("wo", ("add",), saved=False), view("w2", ("add",), saved=True))))
    assert known.saved_view("wo.reshape", frozenset({("", "Add")}), is_lost=False) == "wo.reshape"
    assert known.saved_view("wo.reshape", frozenset({("", "Add")}), is_lost=True) == "w2.reshape"
