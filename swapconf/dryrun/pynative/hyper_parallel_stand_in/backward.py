"""``loss.backward()`` and ``tensor.grad`` for MindSpore's tensors, as hyper_parallel adds them. [mindspore]

``tensor.detach()``, too, which mindformers 2.1.0 calls and MindSpore has from 2.11 on: mindformers 2.0.0 calls
``ops.stop_gradient`` in the same places.
"""

from __future__ import annotations

from typing import Any


def enable_mindspore_backward_compat() -> None:
    """Once or more often; what it adds is there from then on."""
    from mindspore import ops
    from mindspore._c_expression import TensorPy, run_backward
    from mindspore.graph.api import _pynative_executor

    def backward(
        tensor: Any, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
    ) -> Any:
        seed = ops.ones_like(tensor) if gradient is None else gradient
        if tuple(seed.shape) != tuple(tensor.shape):
            raise RuntimeError(f"the gradient has the shape {seed.shape}, and the tensor {tensor.shape}")
        keep = create_graph if retain_graph is None else retain_graph
        wanted = () if inputs is None else (inputs,) if isinstance(inputs, TensorPy) else tuple(inputs)
        return run_backward(
            (tensor,), (seed,), keep, create_graph, wanted, allow_unreachable=True, accumulate_grad=True
        )

    _pynative_executor.set_grad_flag(True)
    TensorPy.backward = backward
    TensorPy.grad = property(lambda tensor: tensor._grad, _set_gradient)
    TensorPy.requires_grad = property(lambda tensor: tensor._requires_grad, _set_requires_grad)
    if not hasattr(TensorPy, "detach"):
        TensorPy.detach = lambda tensor: ops.stop_gradient(tensor)


def _set_gradient(tensor: Any, value: Any) -> None:
    tensor._grad = value


def _set_requires_grad(tensor: Any, value: bool) -> None:
    tensor._requires_grad = value
