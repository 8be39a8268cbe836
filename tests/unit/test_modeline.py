from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.config.modeline import with_modeline
from tests.helpers import invoke

LINE = b"# yaml-language-server: $schema=s.json"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a: 1\n", LINE + b"\na: 1\n"),
        (b"a: 1\r\nb: 2\r\n", LINE + b"\r\na: 1\r\nb: 2\r\n"),
        (b"a: 1", LINE + b"\na: 1"),
        (b"", LINE + b"\n"),
        (b"\xef\xbb\xbfa: 1\n", b"\xef\xbb\xbf" + LINE + b"\na: 1\n"),
        (
            b"# head\n\n# yaml-language-server: $schema=old.json more\na: 1\n",
            b"# head\n\n# yaml-language-server: $schema=s.json more\na: 1\n",
        ),
        (
            b"a: |\n  # yaml-language-server: $schema=old.json\n",
            LINE + b"\na: |\n  # yaml-language-server: $schema=old.json\n",
        ),
        (b"---\r# x\r", LINE + b"\r---\r# x\r"),
        (b"\xff\xfe: 1\n", LINE + b"\n\xff\xfe: 1\n"),
    ],
)
def test_where_it_goes(before: bytes, after: bytes) -> None:
    assert with_modeline(before, "s.json") == after


lines = st.lists(
    st.sampled_from([b"a: 1", b"# yaml-language-server: $schema=x.json", b"# c", b"", b"  ", b"\xc3\xa4"]), max_size=6
)


@given(lines, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_twice_is_once_and_the_rest_stays(parts: list[bytes], newline: bytes, mark: bool) -> None:
    content = b"\xef\xbb\xbf" * mark + newline.join(parts)
    once = with_modeline(content, "../s.json")
    assert with_modeline(once, "../s.json") == once
    assert once.startswith(b"\xef\xbb\xbf") == mark
    assert others(once) == others(content)


def others(content: bytes) -> list[bytes]:
    """Every line that is no modeline."""
    found = re.split(rb"\r\n|\n|\r", content.removeprefix(b"\xef\xbb\xbf"))
    return [line for line in found if not line.startswith(b"# yaml-language-server") and line]


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_nearest_schema_is_named_from_the_file(tmp_path: Path) -> None:
    inner = tmp_path / "configs" / "a b"
    inner.mkdir(parents=True)
    file = inner / "train.yaml"
    file.write_bytes(b"a: 1\r\n")
    assert invoke("modeline", file).exit_code == 2
    assert invoke("schema", "--write", tmp_path).exit_code == 0
    assert invoke("modeline", file).exit_code == 0
    assert file.read_bytes() == b"# yaml-language-server: $schema=../../swapconf.schema.json\r\na: 1\r\n"


@pytest.mark.parametrize(
    ("given_schema", "written"),
    [("https://example.org/s.json", "https://example.org/s.json"), ("{folder}/x y/s.json", "x%20y/s.json")],
)
def test_a_schema_can_be_given(tmp_path: Path, given_schema: str, written: str) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("a: 1\n")
    assert invoke("modeline", "--schema", given_schema.format(folder=tmp_path), file).exit_code == 0
    assert file.read_text().splitlines()[0] == f"# yaml-language-server: $schema={written}"


def test_links_and_permissions_stay_and_an_unchanged_file_is_not_written(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("a: 1\n")
    real.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    assert invoke("modeline", "--schema", "s.json", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("# yaml-language-server")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    before = real.stat()
    assert "unchanged" in invoke("modeline", "--schema", "s.json", link).stdout
    assert (real.stat().st_ino, real.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "real.yaml"]


def test_what_is_no_text_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes("a: 1\n".encode("utf-16"))
    result = invoke("modeline", "--schema", "s.json", file)
    assert result.exit_code == 2
    assert "yaml-encoding" in result.stderr
    assert file.read_bytes() == "a: 1\n".encode("utf-16")
