"""The wheel in an environment of its own: what people get who do not work in a checkout.

It installs swapconf's dependencies from PyPI, so it only runs where SWAPCONF_REQUIRE_WHEEL is set, as in CI.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import swapconf
from tests.helpers import ROOT, TRACES

pytestmark = pytest.mark.skipif("SWAPCONF_REQUIRE_WHEEL" not in os.environ, reason="SWAPCONF_REQUIRE_WHEEL is not set")
# what would make the environment see the checkout, or decide on the language of what it prints
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SWAPCONF_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
MISTAKES = ROOT / "docs" / "mistakes.yaml"


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return subprocess.run(words, cwd=cwd, env=kept, text=True, capture_output=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = run(Path(sys.executable).with_name("just"), "wheel", folder, cwd=ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("clean")
    assert run(sys.executable, "-m", "venv", "venv", cwd=folder).returncode == 0
    programs = folder / "venv" / "bin"
    done = run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return programs


def test_every_file_of_the_package_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "swapconf"], cwd=ROOT, text=True, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    assert packed == set(listed.stdout.splitlines())


def test_it_has_the_version_of_the_package(wheel: Path, installed: Path, tmp_path: Path) -> None:
    assert wheel.name.startswith(f"swapconf-{swapconf.__version__}-")
    assert run(installed / "swapconf", "--version", cwd=tmp_path).stdout == f"swapconf {swapconf.__version__}\n"
    told = "import importlib.metadata as m, swapconf; print(m.version('swapconf'), swapconf.__file__)"
    version, file = run(installed / "python", "-c", told, cwd=tmp_path).stdout.split()
    assert version == swapconf.__version__
    assert Path(file).is_relative_to(installed.parent)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_check_says_what_it_says_in_the_checkout(installed: Path, tmp_path: Path, language: str) -> None:
    words = ("check", MISTAKES, "--lang", language)
    here = run(sys.executable, "-m", "swapconf", *words, cwd=ROOT)
    there = run(installed / "swapconf", *words, cwd=tmp_path)
    assert (there.returncode, there.stdout, there.stderr) == (1, here.stdout, here.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ("schema",),
        ("families",),
        ("rules", "op-no-match"),
        ("completion", "bash"),
        ("register-path",),
        ("explain", TRACES / "llama.yaml"),
        ("memory", TRACES / "llama_l2_none"),
        ("timeline", TRACES / "llama_l2_layerswap_n1", "--hardware", "ascend_910b2"),
    ],
    ids=lambda words: words[0],
)
def test_commands_find_the_data_that_they_read(installed: Path, tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    done = run(installed / "swapconf", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_what_is_not_installed_is_named_with_packages_that_an_index_has(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "swapconf", "memory", TRACES / "llama_l2_none", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install jinja2 plotly" in done.stderr
    assert not (tmp_path / "page.html").exists()
