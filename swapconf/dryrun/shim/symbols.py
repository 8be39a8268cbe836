"""SYMBOL -> BEHAVIOUR: what the stand-in for one function of CANN must do so that MindSpore's plugin can simulate.

In a simulated run the functions are hardly called at all: some when the plugin is loaded (it registers operators, which
makes and copies objects of the namespace ``ge``), some when it starts and when it ends. Zero is success to every C
function of CANN, and an object of all zeros is a valid empty one of every class below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Zero:
    """Returns 0: success, no, none, nothing."""


@dataclass(frozen=True, slots=True)
class Handle:
    """Returns the address of some memory that nobody looks into."""


@dataclass(frozen=True, slots=True)
class Text:
    """Returns a constant string."""

    text: str


@dataclass(frozen=True, slots=True)
class Constructor:
    """Clears ``words`` machine words at its first argument."""

    words: int


@dataclass(frozen=True, slots=True)
class HiddenResult:
    """Returns an object of ``words`` cleared machine words in memory that the caller provides.

    Its address comes in a register of its own on aarch64 (x8) and as the first argument on x86-64 (Itanium C++ ABI).
    """

    words: int


@dataclass(frozen=True, slots=True)
class Map:
    """Returns the address of one object that begins with a ``std::map`` (in libstdc++'s layout), empty at first."""


Behaviour = Zero | Handle | Text | Constructor | HiddenResult | Map

# Any SoC that MindSpore knows would do. This one is what the documented Atlas 800T A2 reports.
SOC_NAME = "Ascend910B2"

# sizeof in machine words, from CANN's public headers (graph/*.h, ge/ge_api.h): most hold one shared pointer, which is
# two words; an Operator has a vtable, too. An object of any other class is left as it is: better unset than too long.
CLASS_WORDS = {
    "AscendString": 2,
    "Graph": 2,
    "GraphBuffer": 1,
    "Operator": 3,
    "Promote": 2,
    "Session": 2,
    "Shape": 2,
    "Tensor": 2,
    "TensorDesc": 2,
    "TensorType": 2,
}
# Methods that return an object: by (class, method), its words. Return types are not part of a symbol's name.
RESULT_WORDS = {
    ("GNode", "GetInControlNodes"): 3,
    ("GNode", "GetInDataNodesAndPortIndexs"): 3,
    ("GNode", "GetOutControlNodes"): 3,
    ("GNode", "GetOutDataNodesAndPortIndexs"): 3,
    ("Graph", "GetDirectNode"): 3,
    ("Operator", "GetDynamicInputDesc"): 2,
    ("Operator", "GetDynamicOutputDesc"): 2,
    ("Operator", "GetInputDesc"): 2,
    ("Operator", "GetOutputDesc"): 2,
    ("OperatorFactory", "CreateOperator"): 3,
    ("Session", "GetCompiledGraphSummary"): 2,
    ("Shape", "GetDims"): 3,
    ("Tensor", "GetTensorDesc"): 2,
    ("TensorDesc", "GetOriginShape"): 2,
    ("TensorDesc", "GetShape"): 2,
}
_TEXTS = {"aclrtGetSocName": SOC_NAME, "aclGetRecentErrMsg": "", "_ZNK2ge12AscendString9GetStringEv": ""}

# acl...Create... hand out objects. Those with an output argument are told by what they create.
_HANDLES = re.compile(r"acl(op|mdl|tdt|prof|rt)?Create(?!Stream|Event|Context)|aclGet(TensorDescName|DataBufferAddr)")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names of the compiler, the C library, Python, std:: and the global allocation functions: whoever defines them breaks
# the process. Most carry a version and are never looked at; in MindSpore 2.10 some of std:: do not.
_RESERVED = re.compile(
    r"__|_?Py|_(Unwind|ITM|fini|init|edata|end)|dl(addr|close|error|open|sym)|swapconf_|"
    r"_Z(GV|T[VTISC])?(N[KVr]*)?S[absiodt]|_Z[nd][wal]"
)
_METHOD = re.compile(r"_ZNK?2ge(?P<length>[0-9]+)(?P<rest>\w+)")


def may_define(symbol: str) -> bool:
    """Whether ``symbol`` is a C identifier and belongs to no language runtime."""
    return _IDENTIFIER.fullmatch(symbol) is not None and _RESERVED.match(symbol) is None


def behaviour(symbol: str) -> Behaviour:
    """What the stand-in for ``symbol`` does; ``Zero`` where nothing is known about it."""
    if symbol in _TEXTS:
        return Text(_TEXTS[symbol])
    if _HANDLES.match(symbol):
        return Handle()
    match _ge_method(symbol):
        case ("StatusFactory", "Instance"):
            return Map()
        case (owner, "constructor"):
            # Registers are empty classes (one byte): writing to one would smash the static object behind it.
            return Zero() if owner.endswith("Register") or owner not in CLASS_WORDS else Constructor(CLASS_WORDS[owner])
        case method if method in RESULT_WORDS:
            return HiddenResult(RESULT_WORDS[method])
    return Zero()


def _ge_method(symbol: str) -> tuple[str, str]:
    """Class and method of a mangled ``ge::Class::Method``, the method of C1 and C2 being "constructor"; else empty."""
    match = _METHOD.fullmatch(symbol)
    if match is None:
        return "", ""
    length = int(match["length"])
    owner, rest = match["rest"][:length], match["rest"][length:]
    if re.match(r"C[123]", rest):
        return owner, "constructor"
    named = re.match(r"([0-9]+)(\w+)", rest)
    return (owner, named[2][: int(named[1])]) if named else (owner, "")
