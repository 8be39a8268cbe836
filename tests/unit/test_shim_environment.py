"""swapconf.dryrun.environment and cann: what a dry-run child gets to see. A real CANN goes before the shim."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from swapconf.dryrun import DryRunError, environment
from swapconf.dryrun.cann import Cann, Places, find_cann
from swapconf.dryrun.environment import child_environment, locate, prepare, without_shim
from swapconf.dryrun.shim import loader
from swapconf.dryrun.shim.build import Shim
from swapconf.dryrun.shim.cache import MARKER


def put_cann(home: Path) -> Path:
    """An installation folder of CANN, as far as finding it goes; its libascendcl.so."""
    (home / "lib64").mkdir(parents=True)
    library = home / "lib64" / "libascendcl.so"
    library.touch()
    return library


def put_shim(entry: Path) -> Shim:
    put_cann(entry / "cann")
    (entry / "cann" / "opp").mkdir()
    (entry / "python").mkdir()
    (entry / MARKER).write_text("{}")
    return Shim(folder=entry, machine="x86_64", symbols=3, compiler="cc", build_seconds=0.5, was_cached=True)


@pytest.fixture
def nowhere(tmp_path: Path) -> Places:
    """A system without CANN."""
    return Places(loader_cache=tmp_path / "no.cache", roots=(tmp_path / "no" / "Ascend",))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with something named mindspore, which is never imported."""
    folder = tmp_path / "site"
    (folder / "mindspore").mkdir(parents=True)
    (folder / "mindspore" / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "mindspore-2.9.0.dist-info").mkdir()
    (folder / "mindspore-2.9.0.dist-info" / "METADATA").write_text("Name: mindspore\nVersion: 2.9.0\n")
    return folder


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: Places) -> Shim:
    """A machine without CANN, where building the shim takes no time."""
    made = put_shim(tmp_path / "cache" / "key")
    monkeypatch.setattr(environment, "find_cann", lambda base: find_cann(base, nowhere))
    monkeypatch.setattr(environment, "ensure_shim", lambda folder, base: made)
    return made


class TestFindCann:
    def test_none(self, nowhere: Places) -> None:
        assert find_cann({}, nowhere) is None

    @pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
    def test_by_home_variable(self, tmp_path: Path, nowhere: Places, variable: str) -> None:
        library = put_cann(tmp_path / "cann")
        found = find_cann({variable: str(tmp_path / "cann")}, nowhere)
        assert found == Cann(library=library, found_by=variable, is_set_up=False)
        assert found.home == tmp_path / "cann"
        assert find_cann({variable: str(tmp_path / "empty")}, nowhere) is None
        assert find_cann({variable: ""}, nowhere) is None

    def test_by_loader_path(self, tmp_path: Path, nowhere: Places) -> None:
        library = put_cann(tmp_path / "cann")
        found = find_cann({"LD_LIBRARY_PATH": f"/nonexistent::{library.parent}"}, nowhere)
        assert found == Cann(library=library, found_by="LD_LIBRARY_PATH", is_set_up=True)

    def test_by_loader_cache(self, tmp_path: Path, nowhere: Places) -> None:
        library = put_cann(tmp_path / "cann")
        nowhere.loader_cache.write_bytes(b"glibc-ld.so.cache1.1\0libascendcl.so\0" + os.fsencode(library) + b"\0libc\0")
        found = find_cann({}, nowhere)
        assert found == Cann(library=library, found_by=str(nowhere.loader_cache), is_set_up=True)
        library.unlink()
        assert find_cann({}, nowhere) is None

    @pytest.mark.parametrize("place", ["ascend-toolkit/latest", "latest", "cann", "cann-9.0.0", "ascend-toolkit/8.3.0"])
    def test_by_usual_folder(self, nowhere: Places, place: str) -> None:
        library = put_cann(nowhere.roots[0] / place)
        assert find_cann({}, nowhere) == Cann(library=library, found_by="the usual folders", is_set_up=False)

    def test_latest_goes_before_numbers(self, nowhere: Places) -> None:
        for place in ("ascend-toolkit/9.0.0", "ascend-toolkit/latest", "ascend-toolkit/8.3.0"):
            put_cann(nowhere.roots[0] / place)
        found = find_cann({}, nowhere)
        assert found is not None
        assert found.home.name == "latest"

    def test_a_shim_is_no_cann(self, tmp_path: Path, nowhere: Places) -> None:
        shim = put_shim(tmp_path / "key")
        assert find_cann({"ASCEND_HOME_PATH": str(shim.cann), "LD_LIBRARY_PATH": f"{shim.cann}/lib64"}, nowhere) is None


class TestChildEnvironment:
    def test_shim_goes_first_and_keeps_the_rest(self, tmp_path: Path) -> None:
        shim = put_shim(tmp_path / "key")
        base = {"LD_LIBRARY_PATH": "/opt/lib", "PYTHONPATH": "/opt/python", "ASCEND_HOME_PATH": "/gone", "HOME": "/me"}
        assert child_environment(shim, base, 1) == {
            "MS_SIMULATION_LEVEL": "1",
            "ASCEND_HOME_PATH": f"{tmp_path}/key/cann",
            "ASCEND_TOOLKIT_HOME": f"{tmp_path}/key/cann",
            "ASCEND_OPP_PATH": f"{tmp_path}/key/cann/opp",
            "LD_LIBRARY_PATH": f"{tmp_path}/key/cann/lib64:/opt/lib",
            "PYTHONPATH": f"{tmp_path}/key/python:/opt/python",
            "LD_PRELOAD": f"{tmp_path}/key/libswapconf_waiting.so",
        }

    def test_where_the_loader_would_split_the_path_nothing_is_loaded_first(self, tmp_path: Path) -> None:
        assert "LD_PRELOAD" not in child_environment(put_shim(tmp_path / "a folder"), {}, 1)

    def test_older_mindspores_find_the_shim_by_the_name_latest(self, tmp_path: Path) -> None:
        """MindSpore 2.7.1 looks for ``latest`` in the path of its library, and ends with "Get ascend path failed"."""
        changes = child_environment(put_shim(tmp_path / "key"), {}, 1, by_latest=True)
        assert changes["ASCEND_HOME_PATH"] == f"{tmp_path}/key/latest"
        assert changes["LD_LIBRARY_PATH"] == f"{tmp_path}/key/latest/lib64"
        assert not without_shim(changes).keys() & {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH"}
        assert not without_shim(changes)["LD_LIBRARY_PATH"]

    def test_no_empty_element_puts_the_working_folder_on_a_path(self, tmp_path: Path) -> None:
        changes = child_environment(put_shim(tmp_path / "key"), {"LD_LIBRARY_PATH": ""}, 0)
        assert changes["LD_LIBRARY_PATH"] == f"{tmp_path}/key/cann/lib64"
        assert changes["PYTHONPATH"] == f"{tmp_path}/key/python"

    def test_cann_that_is_set_up_is_left_alone(self, tmp_path: Path) -> None:
        cann = Cann(library=put_cann(tmp_path), found_by="LD_LIBRARY_PATH", is_set_up=True)
        assert child_environment(cann, {"LD_LIBRARY_PATH": f"{tmp_path}/lib64"}, 3) == {"MS_SIMULATION_LEVEL": "3"}

    def test_cann_that_is_installed_only_is_set_up(self, tmp_path: Path) -> None:
        cann = Cann(library=put_cann(tmp_path), found_by="the usual folders", is_set_up=False)
        assert child_environment(cann, {"ASCEND_OPP_PATH": "/mine", "LD_LIBRARY_PATH": "/opt/lib"}, 1) == {
            "MS_SIMULATION_LEVEL": "1",
            "ASCEND_HOME_PATH": str(tmp_path),
            "ASCEND_TOOLKIT_HOME": str(tmp_path),
            "LD_LIBRARY_PATH": f"{tmp_path}/lib64:/opt/lib",
            "PYTHONPATH": f"{tmp_path}/python/site-packages:{tmp_path}/opp/built-in/op_impl/ai_core/tbe",
        }

    def test_an_earlier_shim_is_taken_out_again(self, tmp_path: Path) -> None:
        old = put_shim(tmp_path / "old")
        base = {
            "LD_LIBRARY_PATH": "/opt/lib",
            "PYTHONPATH": "/opt/python",
            "HOME": "/me",
            "LD_PRELOAD": "/opt/libjemalloc.so /opt/libgomp.so",
        }
        dirty = {**base, **child_environment(old, base, 1)}
        assert without_shim(dirty) == {**base, "MS_SIMULATION_LEVEL": "1"}
        assert without_shim(base) == base


class TestPrepare:
    def test_shim_where_there_is_no_cann(self, shim: Shim, package: Path) -> None:
        before = dict(os.environ)
        base = {"PYTHONPATH": str(package), "HOME": "/me"}
        prepared = prepare(sys.executable, base, 0)
        assert (prepared.source, prepared.shim_dir) == ("shim", shim.folder)
        assert prepared.variables == {**base, **prepared.changes}
        assert prepared.variables["MS_SIMULATION_LEVEL"] == "0"
        assert base == {"PYTHONPATH": str(package), "HOME": "/me"}
        assert dict(os.environ) == before

    def test_cann_is_never_shadowed(
        self, shim: Shim, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "ensure_shim", lambda *_: pytest.fail("built a shim beside a CANN"))
        library = put_cann(tmp_path / "cann")
        # Not even where an earlier shim stands before it.
        base = {"PYTHONPATH": str(package), "LD_LIBRARY_PATH": f"{shim.cann}/lib64:{library.parent}"}
        prepared = prepare(sys.executable, base)
        assert (prepared.source, prepared.shim_dir) == ("cann", None)
        assert prepared.variables["LD_LIBRARY_PATH"] == str(library.parent)
        assert prepared.summary()["cann"] == {"library": str(library), "found_by": "LD_LIBRARY_PATH"}

    def test_summary_is_plain(self, shim: Shim, package: Path) -> None:
        summary = prepare(sys.executable, {"PYTHONPATH": str(package)}).summary()
        assert json.loads(json.dumps(summary)) == summary
        assert summary["mindspore"] == "2.9.0"
        assert summary["shim"]["symbols"] == 3
        assert summary["variables"]["MS_SIMULATION_LEVEL"] == "1"

    @pytest.mark.parametrize("level", [2, 3])
    def test_levels_that_need_a_card_need_cann(self, shim: Shim, package: Path, tmp_path: Path, level: int) -> None:
        base = {"PYTHONPATH": str(package)}
        with pytest.raises(DryRunError, match=f"simulation level {level} measures on a card.*no CANN"):
            prepare(sys.executable, base, level)
        put_cann(tmp_path / "cann")
        prepared = prepare(sys.executable, {**base, "ASCEND_HOME_PATH": f"{tmp_path}/cann"}, level)
        assert prepared.variables["MS_SIMULATION_LEVEL"] == str(level)

    @pytest.mark.parametrize("level", [-1, 4, 7])
    def test_other_levels_do_not_exist(self, level: int) -> None:
        with pytest.raises(ValueError, match="simulation level"):
            prepare(level=level)


class TestLocate:
    def test_finds_without_importing(self, package: Path) -> None:
        found = locate(sys.executable, {"PYTHONPATH": str(package)})
        assert found.folder == package / "mindspore"
        assert found.mindspore == "2.9.0"

    def test_the_working_folder_does_not_count(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(package)
        try:
            found = locate(sys.executable, {}).folder
        except DryRunError:
            return
        assert found != package / "mindspore"

    def test_not_installed_says_how_to_install(self, tmp_path: Path) -> None:
        bare = tmp_path / "python"
        bare.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -I -S -c "$@"\n')
        bare.chmod(0o755)
        with pytest.raises(DryRunError, match=rf"MindSpore is not installed for {bare} .*{bare} -m pip install minds"):
            locate(str(bare), {})

    def test_no_interpreter(self) -> None:
        with pytest.raises(DryRunError, match="the interpreter '/no/python' cannot be started"):
            locate("/no/python", {})

    def test_an_interpreter_that_fails(self) -> None:
        with pytest.raises(DryRunError, match="cannot say which MindSpore it has: exit code 1"):
            locate("/bin/false", {})


def test_loader_cache_matches_whole_names_only(tmp_path: Path) -> None:
    for name in ("libm.so.6", "libnotm.so.6"):
        (tmp_path / name).touch()
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(
        b"head\0libm.so.6\0%b/libm.so.6\0%b/libnotm.so.6\0%b/gone/libm.so.6\0" % ((os.fsencode(tmp_path),) * 3)
    )
    assert loader.find("libm.so.6", cache) == (tmp_path / "libm.so.6",)
    assert loader.find("m.so.6", cache) == ()
    assert loader.find("libm.so.6", tmp_path / "absent") == ()
