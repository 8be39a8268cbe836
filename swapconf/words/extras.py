"""EXTRA -> PACKAGES: what some commands need besides, as pyproject.toml lists it, and how to get it.

The advice names the packages themselves and not ``swapconf[EXTRA]``: swapconf is installed from where it is kept, and
whatever an index may have under its name is another project.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from swapconf.words.phrases import phrase

# extra -> {name to import: name to install}
PACKAGES: Mapping[str, Mapping[str, str]] = {
    "dryrun": {"joblib": "joblib", "psutil": "psutil", "elftools": "pyelftools"},
    "dask": {"dask": "dask", "distributed": "distributed"},
    "report": {"jinja2": "jinja2", "plotly": "plotly"},
    "zig": {"ziglang": "ziglang"},
}


def command(extra: str) -> str:
    """The line of a shell that installs what the extra lists."""
    return f"pip install {' '.join(PACKAGES[extra].values())}"


def missing(extra: str, needed_by: str, *modules: str) -> str:
    """What is not installed of an extra, or of some of its modules, and what to do; "" when all is there.

    ``needed_by``: an option or a command.
    """
    absent = [PACKAGES[extra][module] for module in modules or PACKAGES[extra] if find_spec(module) is None]
    return (
        phrase(
            "{option} needs {packages}: {command}", option=needed_by, packages=", ".join(absent), command=command(extra)
        )
        if absent
        else ""
    )
