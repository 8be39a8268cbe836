from __future__ import annotations

import time
from pathlib import Path

import pytest

from swapconf.config.nodes import Document, from_plain
from swapconf.config.yaml_document import MAX_BYTES, parse, read_text
from swapconf.words.findings import SwapconfError

ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(12)
)
MERGE_BOMB = "a0: &a0 {k: 1}\n" + "".join(
    f"a{i + 1}: &a{i + 1} {{<<: [{','.join([f'*a{i}'] * 9)}], k{i}: 1}}\n" for i in range(30)
)


def only(text: str) -> tuple[str, int, int]:
    with pytest.raises(SwapconfError) as caught:
        parse(text, "f.yaml")
    (finding,) = caught.value.findings
    return finding.rule, finding.origin.line, finding.origin.column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("yaml-empty", 0, 0)),
        ("# nothing\n", ("yaml-empty", 0, 0)),
        ("- a\n", ("yaml-not-mapping", 1, 1)),
        ("text\n", ("yaml-not-mapping", 1, 1)),
        ("a: 1\nb: [1\n", ("yaml-syntax", 2, 4)),
        ("\ta: 1\n", ("yaml-syntax", 1, 1)),
        ("a: \x00\n", ("yaml-syntax", 0, 0)),
        ("--- {a: 1}\n--- {b: 1}\n", ("yaml-syntax", 2, 1)),
        ("a: 1\n? [1]\n: 2\n", ("yaml-syntax", 2, 3)),
        ("a: {<<: 3}\n", ("yaml-syntax", 1, 9)),
        ("a: &x [*x]\n", ("yaml-alias-bomb", 1, 4)),
        (ALIAS_BOMB, ("yaml-alias-bomb", 5, 4)),
        (MERGE_BOMB, ("yaml-alias-bomb", 6, 5)),
        ("[" * 100_000, ("yaml-too-deep", 1, 61)),
        ("{" * 100_000, ("yaml-too-deep", 1, 61)),
        ("- " * 100_000, ("yaml-too-deep", 1, 121)),
        ("- 1\n" * 200_000, ("yaml-too-large", 49_998, 3)),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_hostile_or_useless_text_gives_one_located_finding_within_a_second(
    text: str, expected: tuple[str, int, int]
) -> None:
    start = time.monotonic()
    assert only(text) == expected
    assert time.monotonic() - start < 5  # a second on a quiet machine; the bound is against a hang


@pytest.mark.parametrize(
    ("last", "severity"), [("1", "warning"), ("0x1", "warning"), ("True", "error"), ("1.0", "error"), ("2", "error")]
)
def test_a_key_that_stands_twice_with_one_value_is_no_error(last: str, severity: str) -> None:
    """The training runs as its author meant it: published YAMLs of mindformers have such."""
    (found,) = parse(f"a: 1\nb: {{}}\na: {last}\n", "x.yaml").findings
    assert (found.rule, found.severity.value, found.origin.line) == ("yaml-duplicate-key", severity, 3)


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("a: 1\na: 2\n", "yaml-duplicate-key", {"a": 2}),
        ("a: " + "9" * 10_000, "yaml-huge-number", {"a": None}),
        ("a: !!python/object/apply:os.system [date]\n", "yaml-tag", {"a": ["date"]}),
        ("a: !!python/tuple [1, 2]\n", "yaml-tag", {"a": [1, 2]}),
        ("a: !mine x\n", "yaml-tag", {"a": "x"}),
    ],
)
def test_what_can_still_be_read_is_a_finding_beside_the_rest(text: str, rule: str, value: object) -> None:
    document = parse(text, "f.yaml")
    assert [finding.rule for finding in document.findings] == [rule]
    assert document.root.plain() == value


def test_values_are_those_of_pyyaml() -> None:
    import yaml

    text = (
        "a: 010\nb: 1:30\nc: yes\nd: 1e3\ne: .inf\nf: ~\ng: '010'\nh: 0x1F\ni: 1_000\nj: &j {k: [1, {l: m}]}\nn: *j\n"
    )
    assert parse(text, "f").root.plain() == yaml.safe_load(text)


def test_merge_keys_as_pyyaml() -> None:
    import yaml

    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], z: 5}\nd: {y: 0, <<: *a}\n"
    assert parse(text, "f").root.plain() == yaml.safe_load(text)


def test_places_count_from_one() -> None:
    document = parse("a:\n  b: [10,\n      20]\n", "f.yaml")
    entry = document.root.entries["a"].value.entries["b"]
    assert (entry.line, entry.column) == (2, 3)
    assert [(item.line, item.column) for item in entry.value.items] == [(2, 7), (3, 7)]


@pytest.mark.parametrize(
    ("content", "rule", "line"),
    [(b"a: 1\nb: \xff\n", "yaml-encoding", 2), (b"x" * (MAX_BYTES + 1), "yaml-too-large", 0)],
)
def test_unreadable_bytes(tmp_path: Path, content: bytes, rule: str, line: int) -> None:
    (tmp_path / "f.yaml").write_bytes(content)
    with pytest.raises(SwapconfError) as caught:
        read_text(tmp_path / "f.yaml")
    assert [(f.rule, f.origin.line) for f in caught.value.findings] == [(rule, line)]


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b"])
def test_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(SwapconfError) as caught:
        read_text(f"{tmp_path}/{name}")
    assert caught.value.findings[0].rule == "file-not-found"


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert parse(read_text(tmp_path / "f.yaml"), "f").root.plain() == {"a": 1}


def test_plain_values_borrow_the_places_of_the_file_they_came_from() -> None:
    like: Document = parse("a:\n  b: 1\nc: [1, 2]\n", "f.yaml")
    document = from_plain({"a": {"b": 2, "new": 3}, "c": (1, 2, 3)}, like)
    assert document.root.plain() == {"a": {"b": 2, "new": 3}, "c": [1, 2, 3]}
    changed = document.root.entries["a"].value.entries["b"]
    assert (changed.line, changed.column) == (2, 3)
    assert document.root.entries["c"].value.is_tuple
