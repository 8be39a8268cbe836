"""swapconf's stand-in for hyper_parallel, in a dry run's child only, where the real package is not installed.

mindformers 2.0 trains in PyNative mode on hyper_parallel, which is on no package index. What one simulated rank needs
of it is done here by MindSpore's own means, as its public source and documentation say: backward on tensors, activation
checkpoint, swap, parameters in shards and copies of these, parts of tensors on ranks, attention over parts of sequences
and stages of pipelines. All other names are there to be imported, and say so when they are used.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

PACKAGE = "hyper_parallel"
STAND_IN = "swapconf's stand-in"


def in_use() -> str:
    """Which hyper_parallel this process has: its version, or that it is the stand-in, which is put in place here."""
    if find_spec(PACKAGE) is not None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("hyper-parallel")
        except PackageNotFoundError:
            return "of unknown version"
    install()
    return STAND_IN


def install() -> None:
    """Make the modules of `modules.MODULES` importable. [mindspore]"""
    from mindspore.ops.communication import set_comm_ops_inplace

    from swapconf.dryrun.pynative.hyper_parallel_stand_in.modules import modules

    set_comm_ops_inplace(False)  # mindformers 2.1.0 counts on results that are tensors of their own
    for name, contents in modules().items():
        module = ModuleType(name, __doc__)
        module.__path__ = []
        vars(module).update(contents)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
