"""LIBRARIES -> PLAN: every function to stand in for, and the library names under which MindSpore looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from swapconf.dryrun.shim.elf import ElfMachine, Library, read_strings
from swapconf.dryrun.shim.libraries import Closure
from swapconf.dryrun.shim.symbols import Behaviour, behaviour, may_define

# MindSpore opens these by name, below ASCEND_HOME_PATH or on the loader's path. It goes on without any other.
OPENED_BY_NAME = frozenset(
    (
        "libacl_op_compiler.so",
        "libacl_tdt_channel.so",
        "libascend_hal.so",
        "libascendcl.so",
        "libhccl.so",
        "libmsprofiler.so",
        "libnnopbase.so",
        "libopapi.so",
        "libplatform.so",
        "libprofapi.so",
        "libruntime.so",
    )
)
_LIBRARY_NAME = re.compile(rb"lib\w+\.so")
# Functions that are looked up by name when they are needed. What precedes a name in memory may be any constant, so
# operators are found anywhere; the other prefixes also occur inside C++ type names, so they count at the start of a
# word. To aclnnAdd belongs aclnnAddGetWorkspaceSize.
_LOOKED_UP = re.compile(
    rb"aclnn[A-Z]\w*|(?<![A-Za-z0-9_])"
    rb"(?:(?:acl(?:rt|mdl|op|tdt|prof)?|Hccl|Msprof|rt|hal)[A-Z]\w*|(?:Un)?InitHugeMem\w*|ReleaseHugeMem\w*|\w+PTACache\w*)"
)
_OPERATOR_PREFIX, _WORKSPACE_SUFFIX = "aclnn", "GetWorkspaceSize"


@dataclass(frozen=True, kw_only=True, slots=True)
class StandIn:
    symbol: str
    behaviour: Behaviour


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """``sonames``: the file names under which the shim is found."""

    machine: ElfMachine
    stand_ins: tuple[StandIn, ...]
    sonames: tuple[str, ...]


def make_plan(closure: Closure) -> Plan:
    """Stand in for what the plugin's libraries need, or look up by name, and nobody defines."""
    defined = _union(library.defined for library in (*closure.plugin, *closure.others))
    linked = _union(library.undefined for library in closure.plugin)
    looked_up = _union(map(_looked_up, closure.plugin))
    mentioned = _union(map(_library_names, closure.plugin))
    return Plan(
        machine=closure.machine,
        stand_ins=tuple(
            StandIn(symbol=symbol, behaviour=behaviour(symbol))
            for symbol in sorted((linked | looked_up) - defined)
            if may_define(symbol)
        ),
        sonames=tuple(sorted(closure.missing | (OPENED_BY_NAME & mentioned))),
    )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _looked_up(library: Library) -> frozenset[str]:
    # A weak name of CANN is called without a check where MindSpore was built for a version that has it.
    weak = {name for name in library.weak if _LOOKED_UP.fullmatch(name.encode())}
    names = read_strings(library.path, _LOOKED_UP) | weak
    operators = {name for name in names if name.startswith(_OPERATOR_PREFIX) and not name.endswith(_WORKSPACE_SUFFIX)}
    # Linkers keep "InitX" as the tail of "UnInitX".
    tails = {name.removeprefix("Un") for name in names}
    return names | tails | {name + _WORKSPACE_SUFFIX for name in operators}


def _library_names(library: Library) -> frozenset[str]:
    return read_strings(library.path, _LIBRARY_NAME)
