"""A placeholder, not hyper-parallel: every name of every submodule is an empty class.

mindformers 2.0.0 imports hyper-parallel, which PyPI does not have, when it is imported, and uses it in PyNative mode
only. With this in its place graph mode can be imported and run; `scripts/generations.py` puts it on the path of that
one environment. Nothing of PyNative mode works with it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any


class _Nothing(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any submodule, and gives it any name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.startswith(f"{__name__}."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(__path__=[], __getattr__=__getattr__)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Nothing(
        name,
        (),
        {
            "__init__": lambda self, *args, **settings: None,
            "__call__": lambda self, function=None, *args, **settings: function,
            "__enter__": lambda self: self,
            "__exit__": lambda self, *error: False,
        },
    )


sys.meta_path.append(_Modules())
