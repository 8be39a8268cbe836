"""The hook under pre-commit itself, installed from a repository as a user's project installs it.

It installs swapconf and what it depends on, so it only runs where SWAPCONF_REQUIRE_PRE_COMMIT is set, as in CI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.skipif(
    "SWAPCONF_REQUIRE_PRE_COMMIT" not in os.environ, reason="SWAPCONF_REQUIRE_PRE_COMMIT is not set"
)

PACKAGE = ("swapconf", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 4}}\n"
SOUND = MODEL + "swap_config:\n  swap: True\n  layer_swap: [{backward_prefetch: 2, layers: [0]}]\n"


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> str:
    """Commit everything in a folder; the name of the commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return git(folder, "rev-parse", "HEAD")


def test_the_hook_checks_training_yamls_and_no_others(tmp_path: Path) -> None:
    hook, project = tmp_path / "hook", tmp_path / "project"
    hook.mkdir()
    project.mkdir()
    for name in PACKAGE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, hook / name)
    commit = repository(hook)
    (project / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: '{hook}', rev: {commit}, hooks: [{{id: swapconf}}]}}]\n"
    )
    (project / "train.yaml").write_text(SOUND)
    (project / "workflow.yaml").write_text("on: push\n- not yaml: [\n")
    repository(project)

    def run() -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"],
            cwd=project,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    passed = run()
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "in 1 file" in passed.stdout
    (project / "train.yaml").write_text(SOUND.replace("[0]", "[4]"))
    failed = run()
    assert failed.returncode == 1
    assert "train.yaml:4:" in failed.stdout
    assert "swap_config.layer_swap[0].layers: error: there is no layer 4" in failed.stdout
