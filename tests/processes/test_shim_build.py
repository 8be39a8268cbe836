"""swapconf.dryrun.shim as a whole: a small package with a plugin that needs CANN, its shim, a process that loads both.

The plugin is C that names C++ symbols directly; it checks in itself what the stand-ins do to memory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("elftools")

from swapconf.dryrun import DryRunError
from swapconf.dryrun.shim.build import LIBRARY, Shim, ensure_shim
from swapconf.dryrun.shim.c_source import PROCESS_REPORT, c_source
from swapconf.dryrun.shim.cache import MARKER
from swapconf.dryrun.shim.compiler import compile_shim, find_compilers
from swapconf.dryrun.shim.elf import ElfMachine, machine_of, read_library
from swapconf.dryrun.shim.libraries import read_closure
from swapconf.dryrun.shim.plan import Plan, StandIn, make_plan
from swapconf.dryrun.shim.symbols import Constructor, HiddenResult, Zero
from tests.helpers import ROOT

CC = shutil.which("cc") or shutil.which("gcc") or ""
needs_cc = pytest.mark.skipif(not CC, reason="needs a C compiler")

PLUGIN_C = r"""
extern long aclFoo(void);
extern void *aclCreateTensor(void);
extern const char *aclrtGetSocName(void);
extern void _ZN2ge8OperatorC1EPKc(long *, const char *);
extern void _ZN2ge23OperatorCreatorRegisterC1EPKc(long *, const char *);
extern void *_ZNK2ge5Shape7GetDimsEv(long *, const void *);
extern void **_ZN2ge13StatusFactory8InstanceEv(void);
extern long HcclNewFunction(void) __attribute__((weak));
extern long unrelated_weak(void) __attribute__((weak));
extern int fake_core(void);

const char *looked_up[] = {"UnInitHugeMemThreadLocal", "aclnnAdd", "rtKernelLaunch", "someReportError"};
const char *opened[] = {"lib64/libopapi.so", "libunknown.so"};
long object[6] = {7, 7, 7, 7, 7, 7};

static int cleared(int words) {
  int good = 1;
  for (int i = 0; i < 6; i++) {
    if (object[i] != (i < words ? 0 : 7)) good = 0;
    object[i] = 7;
  }
  return good;
}

int check(void) {
  if (aclFoo() != 0 || !aclCreateTensor() || fake_core() != 42) return 1;
  if (aclrtGetSocName()[0] != 'A' || aclrtGetSocName()[6] != '9') return 2;
  _ZN2ge8OperatorC1EPKc(object, "Add");
  if (!cleared(3)) return 3;
  _ZN2ge23OperatorCreatorRegisterC1EPKc(object, "Add");
  if (!cleared(0)) return 4;
#if defined(__x86_64__)  /* in C the address of the result is an argument, which it is not on aarch64 */
  if (_ZNK2ge5Shape7GetDimsEv(object, 0) != object || !cleared(3)) return 5;
#endif
  void **map = _ZN2ge13StatusFactory8InstanceEv();
  if (map[3] != &map[1] || map[4] != &map[1] || map[2] || map[5]) return 6;
  if (!HcclNewFunction || unrelated_weak) return 7;
  return 0;
}
"""

LOAD_AND_CHECK = """
import ctypes, sys
plugin = ctypes.CDLL(sys.argv[1])
for name in sys.argv[2:]:
    ctypes.CDLL(name)
sys.exit(plugin.check())
"""


def cc(*arguments: object) -> None:
    subprocess.run([CC, "-w", "-shared", "-fPIC", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like ``site-packages/mindspore``. The plugin is linked with a CANN that is gone afterwards."""
    folder = tmp_path_factory.mktemp("site-packages") / "mindspore"
    plugins = folder / "lib" / "plugin"
    plugins.mkdir(parents=True)
    gone = tmp_path_factory.mktemp("gone")
    (gone / "empty.c").write_text("")
    (gone / "core.c").write_text("int fake_core(void) { return 42; }")
    (gone / "plugin.c").write_text(PLUGIN_C)
    core = folder / "lib" / "libmindspore_core.so"
    cc(gone / "core.c", "-Wl,-soname,libmindspore_core.so", "-o", core)
    cc(gone / "empty.c", "-Wl,-soname,libascendcl.so", "-o", gone / "libascendcl.so")
    cc(
        gone / "plugin.c",
        "-Wl,--no-as-needed",
        core,
        gone / "libascendcl.so",
        "-Wl,-rpath,$ORIGIN/..",
        "-o",
        plugins / "libmindspore_ascend.so.2",
    )
    shutil.rmtree(gone)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    cache = tmp_path / "cache"
    cache.mkdir()
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache)}


def check_in_child(package: Path, shim: Shim, *opened: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", LOAD_AND_CHECK, package / "lib" / "plugin" / "libmindspore_ascend.so.2", *opened],
        env={"LD_LIBRARY_PATH": str(shim.cann / "lib64")},
    ).returncode


@needs_cc
def test_a_simulated_device_waits_for_reports_that_never_come(fake: Path, environment: dict[str, str]) -> None:
    shim = ensure_shim(fake, environment)
    ask = f"""
import ctypes, time
report = getattr(ctypes.CDLL(None), {PROCESS_REPORT!r})
start, spent = time.monotonic(), time.process_time()
told = [report(milliseconds) for milliseconds in [-1, 10_000, *[3] * 10]]
passed = time.monotonic() - start
print(any(told), passed >= 0.05, time.process_time() - spent < passed / 2)
"""
    done = subprocess.run(
        [sys.executable, "-c", ask], env={"LD_PRELOAD": str(shim.waiting)}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "True", "True"]


@needs_cc
def test_closure_is_what_the_loader_would_load(fake: Path) -> None:
    closure = read_closure(fake)
    assert [library.path.name for library in closure.plugin] == ["libmindspore_ascend.so.2"]
    assert {"libmindspore_core.so"} <= {library.path.name for library in closure.others}
    assert closure.missing == {"libascendcl.so"}


@needs_cc
def test_sonames_are_file_names_only(fake: Path, tmp_path: Path) -> None:
    package = tmp_path / "mindspore"
    shutil.copytree(fake, package)
    (tmp_path / "empty.c").write_text("")
    for number, soname in enumerate(("../../escaped.so", "/tmp/escaped.so", "lib new.so", "libgood-1.0.so")):
        cc(tmp_path / "empty.c", f"-Wl,-soname,{soname}", "-o", tmp_path / f"lib{number}.so")
    cc(
        tmp_path / "empty.c",
        "-Wl,--no-as-needed",
        *tmp_path.glob("lib*.so"),
        "-o",
        package / "lib" / "plugin" / "libmindspore_ops_ascend.so",
    )
    assert read_closure(package).missing == {"libascendcl.so", "libgood-1.0.so"}


@needs_cc
def test_an_installation_of_links_is_read_like_one_of_files(fake: Path, tmp_path: Path) -> None:
    """uv can install so: every file links to one in its cache."""
    package = tmp_path / "mindspore"
    shutil.copytree(fake, package, copy_function=lambda source, target: os.symlink(source, target))
    assert make_plan(read_closure(package)) == make_plan(read_closure(fake))


@needs_cc
def test_plan_names_what_is_needed_and_nothing_else(fake: Path) -> None:
    plan = make_plan(read_closure(fake))
    assert [stand_in.symbol for stand_in in plan.stand_ins] == [
        "HcclNewFunction",
        "InitHugeMemThreadLocal",
        "UnInitHugeMemThreadLocal",
        "_ZN2ge13StatusFactory8InstanceEv",
        "_ZN2ge23OperatorCreatorRegisterC1EPKc",
        "_ZN2ge8OperatorC1EPKc",
        "_ZNK2ge5Shape7GetDimsEv",
        "aclCreateTensor",
        "aclFoo",
        "aclnnAdd",
        "aclnnAddGetWorkspaceSize",
        "aclrtGetSocName",
        "rtKernelLaunch",
    ]
    assert plan.sonames == ("libascendcl.so", "libopapi.so")


@needs_cc
def test_plugin_loads_and_finds_every_stand_in_well_behaved(fake: Path, environment: dict[str, str]) -> None:
    shim = ensure_shim(fake, environment)
    assert check_in_child(fake, shim, "libopapi.so") == 0
    assert (shim.symbols, shim.was_cached) == (13, False)
    assert (shim.python / "hccl" / "sys_version.py").is_file()


@needs_cc
def test_second_use_reads_no_library(fake: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = ensure_shim(fake, environment)
    monkeypatch.setattr("swapconf.dryrun.shim.libraries.read_closure", lambda package: pytest.fail("read again"))
    again = ensure_shim(fake, environment)
    assert again.was_cached
    assert again.folder == first.folder


@needs_cc
def test_key_follows_the_content_not_the_time(fake: Path, environment: dict[str, str], tmp_path: Path) -> None:
    package = tmp_path / "mindspore"
    shutil.copytree(fake, package)
    plugin = package / "lib" / "plugin" / "libmindspore_ascend.so.2"
    first = ensure_shim(package, environment)
    os.utime(plugin, (1, 1))
    assert ensure_shim(package, environment).folder == first.folder
    with plugin.open("ab") as file:
        file.write(b"another version")
    assert ensure_shim(package, environment).folder != first.folder


@needs_cc
@pytest.mark.parametrize("damage", ["index", "entry"])
def test_damage_to_the_cache_is_repaired(fake: Path, environment: dict[str, str], damage: str) -> None:
    first = ensure_shim(fake, environment)
    if damage == "index":
        for index in (first.folder.parent / "index").iterdir():
            index.write_text('{"files"')
    else:
        (first.folder / MARKER).unlink()
        (first.folder / "cann" / "lib64" / LIBRARY).unlink()
    again = ensure_shim(fake, environment)
    assert again.folder == first.folder
    assert check_in_child(fake, again) == 0


def compiler_that(script: str, folder: Path) -> dict[str, str]:
    path = folder / "slow_cc"
    path.write_text(f'#!/bin/sh\n{script}\nexec {CC} "$@"\n')
    path.chmod(0o755)
    return {"CC": str(path)}


def start_build(package: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    program = (
        "import sys, pathlib, os; from swapconf.dryrun.shim.build import ensure_shim; "
        "print(ensure_shim(pathlib.Path(sys.argv[1]), os.environ).folder)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(package)],
        text=True,
        stdout=subprocess.PIPE,
        env={**environment, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@needs_cc
def test_processes_that_build_at_once_end_with_one_good_entry(
    fake: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    # Each compiler waits for the others, so that really all of them build.
    meet = f': > {tmp_path}/arrived.$$; while [ "$(ls {tmp_path}/arrived.* | wc -l)" -lt 3 ]; do sleep 0.02; done'
    builds = [start_build(fake, {**environment, **compiler_that(meet, tmp_path)}) for _ in range(3)]
    outputs = [build.communicate(timeout=60)[0].strip() for build in builds]
    assert [build.returncode for build in builds] == [0, 0, 0]
    assert len(set(outputs)) == 1
    entry = Path(outputs[0])
    assert sorted(path.name for path in entry.parent.iterdir()) == sorted([entry.name, "index"])
    assert check_in_child(fake, ensure_shim(fake, environment)) == 0


@needs_cc
def test_a_build_that_is_killed_leaves_no_entry(fake: Path, environment: dict[str, str], tmp_path: Path) -> None:
    build = start_build(fake, {**environment, **compiler_that(f": > {tmp_path}/compiling; sleep 60", tmp_path)})
    wait_for((tmp_path / "compiling").exists)
    os.killpg(build.pid, signal.SIGKILL)
    build.communicate(timeout=10)
    cache = Path(environment["XDG_CACHE_HOME"]) / "swapconf" / "shim"
    assert [path.name[:10] for path in cache.iterdir()] == [".building-"]
    assert not ensure_shim(fake, environment).was_cached


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DryRunError) as caught:
        find_compilers({"PATH": str(tmp_path)})
    for advice in ("apt install gcc", "dnf install gcc", "pip install ziglang", "variable CC"):
        assert advice in str(caught.value)


def test_cc_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DryRunError, match="the variable CC names the C compiler 'no-such-cc'"):
        find_compilers({"PATH": str(tmp_path), "CC": "no-such-cc -m64"})


def test_cc_that_is_no_command_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(DryRunError, match="the variable CC is no command line"):
        find_compilers({"PATH": str(tmp_path), "CC": "gcc 'unbalanced"})


def test_zig_is_used_where_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert [found.command for found in find_compilers({"PATH": str(tmp_path)})] == [
        (sys.executable, "-m", "ziglang", "cc")
    ]


@needs_cc
def test_a_broken_compiler_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cannot find ld' >&2; exit 1\n")
    broken.chmod(0o755)
    plan = plan_of(host_machine(), "aclInit", Zero())
    (tmp_path / "shim.c").write_text(c_source(plan))
    used = compile_shim(plan, tmp_path / "shim.c", tmp_path / LIBRARY, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert used.command != (str(broken),)
    with pytest.raises(DryRunError, match=r"no C compiler here can .*cannot find ld.*apt install gcc"):
        compile_shim(plan, tmp_path / "shim.c", tmp_path / LIBRARY, {"PATH": os.environ["PATH"], "CC": str(broken)})


@needs_cc
def test_a_compiler_for_another_machine_is_refused(tmp_path: Path) -> None:
    other = next(machine for machine in ElfMachine if machine is not host_machine())
    plan = plan_of(other, "aclInit", Zero())
    (tmp_path / "shim.c").write_text(c_source(plan))
    with pytest.raises(DryRunError, match=f"but MindSpore's libraries are for {other.value}"):
        compile_shim(plan, tmp_path / "shim.c", tmp_path / LIBRARY, {"PATH": os.environ["PATH"], "CC": CC})


def test_aarch64_returns_hidden_results_through_x8(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    plan = Plan(
        machine=ElfMachine.AARCH64,
        sonames=(),
        stand_ins=(
            StandIn(symbol="aclInit", behaviour=Zero()),
            StandIn(symbol="constructor", behaviour=Constructor(3)),
            StandIn(symbol="result", behaviour=HiddenResult(3)),
        ),
    )
    (tmp_path / "shim.c").write_text(c_source(plan))
    target = tmp_path / LIBRARY
    compile_shim(plan, tmp_path / "shim.c", target, {**os.environ, "CC": f"{sys.executable} -m ziglang cc"})
    assert machine_of(target) is ElfMachine.AARCH64
    store, ret = 0xF800851F, 0xD65F03C0  # str xzr, [x8], #8 and ret
    assert words_of_function(target, "result", 4) == [store, store, store, ret]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def words_of_function(library: Path, name: str, count: int) -> list[int]:
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        elf = ELFFile(file)
        table: Any = elf.get_section_by_name(".dynsym")
        symbol = table.get_symbol_by_name(name)[0]
        assert symbol["st_size"] == 4 * count
        offset = next(elf.address_offsets(symbol["st_value"]))
        file.seek(offset)
        return [int.from_bytes(file.read(4), "little") for _ in range(count)]


def test_a_package_without_the_plugin_is_named(tmp_path: Path) -> None:
    with pytest.raises(DryRunError, match=r"has no Ascend plugin.*pip install mindspore==2\.9\.0"):
        read_closure(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(58), b"#!/bin/sh\n" * 10])
def test_a_file_that_is_no_library_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libfake.so"
    path.write_bytes(content)
    with pytest.raises(DryRunError, match=r"libfake\.so is no ELF library"):
        read_library(path)


@needs_cc
@pytest.mark.parametrize("keep", [64, 200, 5000])
def test_a_cut_off_library_is_named(fake: Path, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "libcut.so"
    path.write_bytes((fake / "lib" / "plugin" / "libmindspore_ascend.so.2").read_bytes()[:keep])
    with pytest.raises(DryRunError, match=r"libcut\.so cannot be read as an ELF library"):
        read_library(path)


def test_missing_pyelftools_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['elftools'] = None; from pathlib import Path; "
        "from swapconf.dryrun.shim.build import ensure_shim; ensure_shim(Path('.'), {'HOME': sys.argv[1]})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], env={"PYTHONPATH": str(ROOT)}, text=True, capture_output=True
    )
    assert "pip install joblib psutil pyelftools" in done.stderr


@needs_cc
def test_the_entry_says_how_it_was_made(fake: Path, environment: dict[str, str]) -> None:
    shim = ensure_shim(fake, environment)
    facts = json.loads((shim.folder / MARKER).read_text())
    assert facts["machine"] == host_machine().value
    assert facts["made_from"] == str(fake)
    assert facts["symbols"] == len(read_library(shim.cann / "lib64" / LIBRARY).defined)


def host_machine() -> ElfMachine:
    return ElfMachine(os.uname().machine)


def plan_of(machine: ElfMachine, symbol: str, behaviour: Zero) -> Plan:
    return Plan(machine=machine, sonames=(), stand_ins=(StandIn(symbol=symbol, behaviour=behaviour),))


@needs_cc
def test_the_entry_looks_like_the_installation_that_older_mindspores_expect(
    fake: Path, environment: dict[str, str]
) -> None:
    shim = ensure_shim(fake, environment)
    assert (shim.latest / "lib64" / LIBRARY).samefile(shim.cann / "lib64" / LIBRARY)
    opp = str(shim.latest / "opp")
    assert Path(opp.replace("opp", "opp_kernel")).is_dir()  # as mindspore 2.7.1, run_check/_check_version.py, asks
