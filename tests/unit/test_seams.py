"""The names that the hook replaces: looked up in the text of mindformers' modules, all before any is replaced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swapconf.upstream.seams import BASE_TRAINER, CHECK_RULES, LAYER_SETTING, SEAMS, SWAP_CONFIG, Seam, missing


def fabricate(folder: Path, without: tuple[Seam, ...] = (), seams: tuple[Seam, ...] = SEAMS, **renamed: str) -> Path:
    """A package `mindformers` with every seam but some, whose modules would end the process if they were imported.

    ``renamed``: parameters that have another name.
    """
    modules: dict[str, dict[str, list[str]]] = {}
    for seam in seams:
        owner, _, name = seam.name.rpartition(".")
        body = modules.setdefault(seam.module, {}).setdefault(owner, [])
        if seam in without:
            continue
        words = ", ".join(renamed.get(word, word) for word in seam.parameters or ())
        body.append(f"def {name}({words}): pass" if seam.parameters is not None else f"{name} = object()")
    for module, owners in modules.items():
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["raise SystemExit('imported')"]
        for owner, body in owners.items():
            indent = "    " if owner else ""
            lines += [f"class {owner}:"] * bool(owner) + [indent + line for line in body or ["pass"]]
        file.write_text("\n".join(lines), encoding="utf-8")
        for parent in file.relative_to(folder).parents[:-1]:
            (folder / parent / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    return folder


def lacks(folder: Path) -> list[str]:
    """What `missing` says of a package in a folder, in a process of its own."""
    code = "from swapconf.upstream.seams import missing\nprint(*missing(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_a_mindformers_with_every_seam_lacks_nothing_and_is_not_imported(tmp_path: Path) -> None:
    assert lacks(fabricate(tmp_path)) == []


@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.name)
def test_each_name_that_is_missing_is_found(seam: Seam, tmp_path: Path) -> None:
    assert lacks(fabricate(tmp_path, (seam,))) == [f"{seam.module} has no {seam.name}"]


def test_another_signature_is_told_with_both(tmp_path: Path) -> None:
    (told,) = lacks(fabricate(tmp_path, parallel_config="config"))
    assert told.startswith(f"{LAYER_SETTING}: LayerSetting.__init__ takes (self, num_layers, offset, config, ")
    assert "not (self, num_layers, offset, parallel_config, " in told


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    folder = fabricate(tmp_path, tuple(seam for seam in SEAMS if seam.module == SWAP_CONFIG))
    folder.joinpath(*CHECK_RULES.split(".")).with_suffix(".py").unlink()
    folder.joinpath(*BASE_TRAINER.split(".")).with_suffix(".py").write_text("def broken(:\n")
    told = lacks(folder)
    assert f"there is no module {CHECK_RULES}" in told
    assert [line for line in told if line.startswith(f"the module {BASE_TRAINER} cannot be read (")]
    assert len(told) == 4


def test_names_below_conditions_count(tmp_path: Path) -> None:
    folder = fabricate(tmp_path)
    file = folder.joinpath(*CHECK_RULES.split(".")).with_suffix(".py")
    lines = file.read_text().splitlines()[1:]
    file.write_text("try:\n" + "".join(f"    {line}\n" for line in lines) + "except ImportError:\n    pass\n")
    assert lacks(folder) == []


def test_without_mindformers_nothing_is_missing() -> None:
    assert missing(package="no_such_package_of_this_name") == ()


HOOKED = """
import sys, types
sys.path.insert(0, {folder!r})
from swapconf.train import hook
replaced = []
for name in ("_take_layer_setting", "_keep_swap_config_raw", "_review_configs", "_drop_checks", "_keep_lazy_inline"):
    setattr(hook, name, lambda module, advisor: replaced.append(module.__name__))
hook.install(None)
import {modules}
print(len(replaced))
"""


def hooked(folder: Path) -> tuple[int, str]:
    """How many modules the hook replaces something in when all of them are imported, and what it says."""
    for file in folder.rglob("*.py"):
        file.write_text(file.read_text(encoding="utf-8").replace("raise SystemExit('imported')", ""), encoding="utf-8")
    modules = ", ".join(dict.fromkeys(seam.module for seam in SEAMS))
    done = subprocess.run(
        [sys.executable, "-c", HOOKED.format(folder=str(folder), modules=modules)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout), done.stderr


def test_the_hook_replaces_all_or_says_loudly_once_that_it_replaces_nothing(tmp_path: Path) -> None:
    assert hooked(fabricate(tmp_path / "whole")) == (5, "")
    replaced, told = hooked(fabricate(tmp_path / "broken", (SEAMS[-1],)))  # a seam of the module that comes last
    assert replaced == 0
    assert told.count("swapconf: steps aside") == 1
    assert f"{SEAMS[-1].module} has no {SEAMS[-1].name}" in told
    assert "install one of mindformers 1.7.0 to 2.1.0" in told
