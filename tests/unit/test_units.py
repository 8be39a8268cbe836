from __future__ import annotations

import pytest

from swapconf.words.units import parse_bytes, show_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("54GB", 54 << 30),
        ("54 GiB", 54 << 30),
        ("900MB", 900 << 20),
        ("1.5g", 3 << 29),
        ("512B", 512),
        ("0", 0),
        ("1048576", 1 << 20),
        ("61430M", 61430 << 20),
    ],
)
def test_sizes_are_read_as_mindspore_reads_them(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "1e9", "-1GB", "12 parsecs", "1" * 40])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


def test_sizes_are_shown_with_a_unit() -> None:
    assert [show_bytes(n) for n in (None, 0, 2048, 7 << 20, 61430 << 20)] == ["-", "0B", "2.0K", "7.0M", "59.99G"]


@pytest.mark.parametrize("text", ["54", "5", " 1.5 ", "1048575"])
def test_a_small_number_without_a_unit_is_a_unit_that_was_forgotten(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text.strip()}' is {text.strip()} bytes; write {text.strip()}GB"):
        parse_bytes(text)
