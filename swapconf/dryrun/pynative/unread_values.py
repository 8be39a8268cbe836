"""PARAMETER made of a tensor -> the same, whose values on the host take no memory. [mindspore]

MindSpore makes such a copy through the host: it reads the tensor, and the parameter holds what was read (2.10.0,
common/parameter.py, _get_parameter_new_args). So the float32 weights of mindformers' optimizers lie on the host, too,
4 B for each parameter of the rank, and are copied once more for each moment that is made like them. A simulated device
has no values to read, and host memory that nobody writes to is only promised.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

_Promised: TypeAlias = MutableMapping[int, Any]  # arrays without values, by their address


def leave_unread() -> None:
    """From now on, in this process."""
    from mindspore import Parameter, Tensor

    arguments = Parameter._get_parameter_new_args
    promised: _Promised = WeakValueDictionary()

    @wraps(arguments)
    def without_values(*given: Any) -> Any:
        with _reading_nothing(promised):
            kind, *made = arguments(*given)
        if made and any(made[0] is array for array in promised.values()):
            made[0] = Tensor.from_numpy(made[0])  # which Tensor itself would copy
        return (kind, *made)

    Parameter._get_parameter_new_args = staticmethod(without_values)


@contextmanager
def _reading_nothing(promised: _Promised) -> Iterator[None]:
    """While it is entered, a float32 tensor on the device, or one made of such an array, is read as another array that
    nobody writes to."""
    import mindspore
    import numpy  # type: ignore[import-not-found, unused-ignore]  # comes with mindspore
    from mindspore import Tensor

    read = Tensor.asnumpy

    def promise(tensor: Any) -> Any:
        if tensor.has_init or tensor.dtype != mindspore.float32:
            return read(tensor)
        if not str(tensor.device).startswith("Ascend") and _address(values := read(tensor)) not in promised:
            return values
        array = numpy.empty(tuple(tensor.shape), numpy.float32)
        promised[_address(array)] = array
        return array

    Tensor.asnumpy = promise
    try:
        yield
    finally:
        Tensor.asnumpy = read


def _address(array: Any) -> int:
    return int(array.ctypes.data)
