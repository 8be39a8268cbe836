"""swapconf.dryrun.shim.symbols and source: what a stand-in does, and how that reads in C."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("elftools")

from swapconf.dryrun.shim.c_source import c_source
from swapconf.dryrun.shim.elf import ElfMachine
from swapconf.dryrun.shim.plan import Plan, StandIn
from swapconf.dryrun.shim.symbols import (
    Behaviour,
    Constructor,
    Handle,
    HiddenResult,
    Map,
    Text,
    Zero,
    behaviour,
    may_define,
)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("aclInit", Zero()),
        ("aclnnAddGetWorkspaceSize", Zero()),
        ("aclrtGetSocName", Text("Ascend910B2")),
        ("aclGetRecentErrMsg", Text("")),
        ("_ZNK2ge12AscendString9GetStringEv", Text("")),
        ("aclCreateTensor", Handle()),
        ("aclmdlCreateDesc", Handle()),
        ("acltdtCreateChannelWithCapacity", Handle()),
        # These return a code and hand the object out through an argument.
        ("aclrtCreateStreamWithConfig", Zero()),
        ("aclrtCreateEventExWithFlag", Zero()),
        ("aclrtCreateContext", Zero()),
        ("_ZN2ge8OperatorC1EPKcS2_", Constructor(3)),
        ("_ZN2ge8OperatorC2ERKSs", Constructor(3)),
        ("_ZN2ge11GraphBufferC1Ev", Constructor(1)),
        ("_ZN2ge11GraphBufferD1Ev", Zero()),
        # Empty classes: one byte, and somebody else's static behind it.
        ("_ZN2ge23OperatorCreatorRegisterC1EPKcRKSt8functionIFNS_8OperatorERKNS_12AscendStringEEE", Zero()),
        ("_ZN2ge22InferShapeFuncRegisterC1ERKSsRKSt8functionIFjRNS_8OperatorEEE", Zero()),
        # A class that nobody has measured: writing nothing is the safe choice.
        ("_ZN2ge9NewHandleC1Ev", Zero()),
        ("_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_", HiddenResult(3)),
        ("_ZNK2ge10TensorDesc8GetShapeEv", HiddenResult(2)),
        ("_ZNK2ge5Shape7GetDimsEv", HiddenResult(3)),
        ("_ZNK2ge5Shape6GetDimEm", Zero()),
        ("_ZNK2ge12AscendStringltERKS0_", Zero()),
        ("_ZN2ge13StatusFactory8InstanceEv", Map()),
        ("_ZN2ge12GEInitializeERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE", Zero()),
    ],
)
def test_behaviour(symbol: str, expected: Behaviour) -> None:
    assert behaviour(symbol) == expected


@pytest.mark.parametrize("symbol", ["aclInit", "HcclAllReduce", "_ZN2ge5ShapeC1Ev", "rtKernelLaunch", "memcpy_s"])
def test_may_define_what_belongs_to_cann(symbol: str) -> None:
    assert may_define(symbol)


@pytest.mark.parametrize(
    "symbol",
    [
        "PyObject_Call",
        "_Py_NoneStruct",
        "Py_IsInitialized",
        "__cxa_throw",
        "_Unwind_Resume",
        "_ITM_RU1",
        "_init",
        "dlopen",
        "dlsym",
        "_ZSt4cout",
        "_ZNSt6vectorIlSaIlEED1Ev",
        "_ZNKSt9exception4whatEv",
        "_ZNSs4_Rep20_S_empty_rep_storageE",
        "_ZNSaIcED1Ev",
        "_ZTISt9exception",
        "_ZTVSt9exception",
        "_ZGVNSt10moneypunctIcLb0EE2idE",
        "_Znwm",
        "_ZnamRKSt9nothrow_t",
        "_ZdlPv",
        "_ZdaPv",
    ],
)
def test_never_defines_what_belongs_to_a_language_runtime(symbol: str) -> None:
    assert not may_define(symbol)


@pytest.mark.parametrize(
    "symbol",
    [
        "",
        "9lives",
        "acl Init",
        "aclInit\n",
        "aclInit;",
        'aclInit"',
        "aclInit(void){}int x",
        "acl.part.0",
        "aclÜ",
        "swapconf_memory",
    ],
)
def test_refuses_names_that_would_not_be_one_word_of_c(symbol: str) -> None:
    assert not may_define(symbol)


def test_source_has_one_line_for_each_stand_in() -> None:
    symbols = (
        "aclInit",
        "aclCreateTensor",
        "aclrtGetSocName",
        "_ZN2ge8OperatorC1EPKc",
        "_ZNK2ge5Shape7GetDimsEv",
        "_ZN2ge13StatusFactory8InstanceEv",
    )
    plan = Plan(
        machine=ElfMachine.X86_64,
        sonames=(),
        stand_ins=tuple(StandIn(symbol=symbol, behaviour=behaviour(symbol)) for symbol in symbols),
    )
    assert c_source(plan).splitlines()[-6:] == [
        "ZERO(aclInit)",
        "HANDLE(aclCreateTensor)",
        'TEXT(aclrtGetSocName, "Ascend910B2")',
        "CONSTRUCTOR(_ZN2ge8OperatorC1EPKc, 3)",
        "HIDDEN_RESULT(_ZNK2ge5Shape7GetDimsEv, 3)",
        "MAP(_ZN2ge13StatusFactory8InstanceEv)",
    ]


@given(st.text() | st.from_regex(r"_?[A-Za-z]\w{0,8}[^\w]?.{0,8}"))
def test_whatever_a_library_names_becomes_one_word_of_c_or_nothing(symbol: str) -> None:
    if not may_define(symbol):
        return
    plan = Plan(machine=ElfMachine.X86_64, sonames=(), stand_ins=(StandIn(symbol=symbol, behaviour=behaviour(symbol)),))
    empty = Plan(machine=ElfMachine.X86_64, sonames=(), stand_ins=())
    added = c_source(plan).removeprefix(c_source(empty))
    assert re.fullmatch(r"[A-Z_]+\([A-Za-z_][A-Za-z0-9_]*(, (\d+|\"[\w.]+\"))?\)\n", added)
