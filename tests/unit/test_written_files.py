"""What swapconf writes: whole, with safe modes, and through no link that others planted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from swapconf.config.nodes import nowhere
from swapconf.dryrun import child, report_cache
from swapconf.dryrun.rank_order import RankOrder
from swapconf.files.writing import refuse_links, replace_text, write_named
from tests.unit.test_dry_run import REPORT


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        replace_text(tmp_path / "page.html", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_planted_link_is_replaced_and_what_it_names_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "out.csv").symlink_to(tmp_path / "precious")
    replace_text(tmp_path / "out.csv", "new")
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "out.csv").read_text() == "new"


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "elsewhere.html")
    write_named(tmp_path / "page.html", "\udcff")
    assert (tmp_path / "elsewhere.html").read_text() == "\\udcff"
    assert (tmp_path / "page.html").is_symlink()
    write_named(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()
    with pytest.raises(IsADirectoryError):
        write_named(tmp_path, "text")


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    replace_text(path, "old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        replace_text(path, "new")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["page.html"]


def test_links_in_a_chosen_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "worker.log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"is a link.*worker\.log"):
        refuse_links(tmp_path, ("worker.log",))
    refuse_links(tmp_path, ("other.log",))


@pytest.mark.parametrize(
    "planted", ["rank_0", "rank_0/worker.log", "rank_0/run.json", "rank_0/memory_block.csv", "rank_0/whole"]
)
def test_a_kept_dry_run_goes_through_no_link_below_its_folder(tmp_path: Path, planted: str) -> None:
    keep, elsewhere = tmp_path / "keep", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (keep / planted).parent.mkdir(parents=True)
    (keep / planted).symlink_to(elsewhere)
    order = RankOrder(document=nowhere(), rank=0, keep=keep)
    with pytest.raises(OSError, match="is a link"), child._place(order, "whole" if "whole" in planted else ""):
        pytest.fail("would write there")
    assert list(elsewhere.iterdir()) == []


# --- the cache of reports -------------------------------------------------------------------------------------------


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RankOrder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return RankOrder(document=nowhere("a.yaml"), rank=4)


def test_the_cache_of_reports_is_private(order: RankOrder) -> None:
    before = os.umask(0)
    try:
        report_cache.store(order, REPORT)
    finally:
        os.umask(before)
    [entry] = report_cache.folder().iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (report_cache.folder(), report_cache.folder().parent, entry)]
    assert modes == [0o700, 0o700, 0o600]
    assert report_cache.find(order) == REPORT


def open_to_others(folder: Path) -> None:
    folder.chmod(0o777)


def made_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))


def entry_made_a_link(folder: Path) -> None:
    [entry] = folder.iterdir()
    entry.rename(folder.parent / "moved.json")
    entry.symlink_to(folder.parent / "moved.json")


@pytest.mark.parametrize("spoil", [open_to_others, made_a_link, entry_made_a_link])
def test_a_cache_that_others_could_have_written_is_not_read(order: RankOrder, spoil: object) -> None:
    report_cache.store(order, REPORT)
    spoil(report_cache.folder())  # type: ignore[operator]
    assert report_cache.find(order) is None


def test_a_cache_of_another_user_is_neither_read_nor_written(order: RankOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    report_cache.store(order, REPORT)
    user, [entry] = os.geteuid(), report_cache.folder().iterdir()
    entry_before = entry.stat().st_mtime_ns
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert report_cache.find(order) is None
    report_cache.store(order, REPORT)
    assert entry.stat().st_mtime_ns == entry_before
    assert list(report_cache.folder().iterdir()) == [entry]


def test_a_shim_index_cannot_name_a_folder_outside_of_the_cache(tmp_path: Path) -> None:
    from swapconf.dryrun.shim.cache import MARKER, find_entry, write_json

    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    write_json(outside / MARKER, {})
    (tmp_path / "cache").mkdir(mode=0o700)
    assert find_entry(tmp_path / "cache", "../outside") is None
    assert find_entry(tmp_path / "cache", str(outside)) is None
