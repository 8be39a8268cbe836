"""swapconf.dryrun.shim.cache: entries are complete or absent, and nobody else's."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from swapconf.dryrun import DryRunError
from swapconf.dryrun.shim import cache
from swapconf.dryrun.shim.cache import MARKER, cache_folder, find_entry, new_entry, read_json, write_json

KEY = "0123abcd"


def fill(folder: Path, text: str = "complete") -> None:
    (folder / "content").write_text(text)
    write_json(folder / MARKER, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return cache_folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = cache_folder({"XDG_CACHE_HOME": str(tmp_path)})
        with new_entry(made, KEY) as building:
            fill(building)
    finally:
        os.umask(old)
    assert made == tmp_path / "swapconf" / "shim"
    for private in (made.parent, made, made / KEY):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_folder_defaults_to_the_home_and_ignores_a_relative_setting(tmp_path: Path) -> None:
    expected = tmp_path / ".cache" / "swapconf" / "shim"
    assert cache_folder({"HOME": str(tmp_path)}) == expected
    assert cache_folder({"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"}) == expected


def test_folder_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "swapconf").write_text("in the way")
    with pytest.raises(DryRunError, match="set XDG_CACHE_HOME to a folder you can write to"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_refuses_a_folder_that_others_can_write_to(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(DryRunError, match=f"can be written to by others \\(mode {mode:o}"):
        cache_folder({"XDG_CACHE_HOME": str(folder.parents[1])})


@pytest.mark.parametrize("depth", [0, 1])
def test_refuses_a_folder_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(DryRunError, match=f"belongs to another user \\(id {user}\\)"):
        cache.trust((folder, folder.parent)[depth])


def test_refuses_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "swapconf").mkdir(mode=0o700)
    (tmp_path / "swapconf" / "shim").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DryRunError, match="is no folder but a link or a file"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_the_whole_cache_may_live_elsewhere(tmp_path: Path) -> None:
    """A link that the user makes for ~/.cache/swapconf, to a larger disk, is checked where it leads."""
    elsewhere = tmp_path / "large"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "swapconf").symlink_to(elsewhere)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}).is_dir()
    elsewhere.chmod(0o777)
    with pytest.raises(DryRunError, match="can be written to by others"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_refuses_an_entry_that_is_not_a_folder_of_our_own(folder: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    fill(planted)
    (folder / KEY).symlink_to(planted)
    with pytest.raises(DryRunError, match="is no folder but a link or a file"):
        find_entry(folder, KEY)
    (folder / KEY).unlink()
    planted.rename(folder / KEY)
    (folder / KEY).chmod(0o777)
    with pytest.raises(DryRunError, match="can be written to by others"):
        find_entry(folder, KEY)


def test_an_entry_appears_whole_at_the_end(folder: Path) -> None:
    with new_entry(folder, KEY) as building:
        fill(building)
        assert find_entry(folder, KEY) is None
    assert find_entry(folder, KEY) == folder / KEY
    assert [path.name for path in folder.iterdir()] == [KEY]


def test_a_failed_build_leaves_nothing(folder: Path) -> None:
    def fail() -> None:
        with new_entry(folder, KEY) as building:
            fill(building)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(folder.iterdir()) == []


def test_the_first_of_two_builds_stays(folder: Path) -> None:
    with new_entry(folder, KEY) as slow:
        with new_entry(folder, KEY) as fast:
            fill(fast, "first")
        fill(slow, "second")
    assert (folder / KEY / "content").read_text() == "first"
    assert [path.name for path in folder.iterdir()] == [KEY]


def test_a_half_deleted_entry_is_built_anew(folder: Path) -> None:
    with new_entry(folder, KEY) as building:
        fill(building, "old")
    (folder / KEY / MARKER).unlink()
    assert find_entry(folder, KEY) is None
    with new_entry(folder, KEY) as building:
        fill(building, "new")
    assert (folder / KEY / "content").read_text() == "new"


def test_what_killed_builds_left_is_removed_when_it_is_old(folder: Path) -> None:
    for name, age_s in (("old", 7200), ("running", 5)):
        left = folder / f".building-{name}"
        left.mkdir()
        os.utime(left, (time.time() - age_s,) * 2)
    with new_entry(folder, KEY) as building:
        fill(building)
    assert sorted(path.name for path in folder.iterdir()) == [".building-running", KEY]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_damaged_json_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    assert read_json(tmp_path / "index.json") == {}
    assert read_json(tmp_path / "absent.json") == {}
