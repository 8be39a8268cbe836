"""MUON of mindformers 2.1.0 -> the same on a MindSpore without ``cube_math_type``, which it asks for. [mindformers]

Muon asks that products of bfloat16 are added in float32, which decides about values and about no tensor. MindSpore
2.10.0 has no such setting, and a training stops there; mindformers 2.1.0 is released for MindSpore 2.11.0, which is on
no package index. Source: mindformers 2.1.0, pynative/optimizer/muon.py, _enable_muon_cube_math_type.
"""

from __future__ import annotations


def do_without() -> None:
    """Nothing, where MindSpore has the setting."""
    from mindformers.pynative.optimizer import muon
    from mindspore.device_context.ascend import op_precision

    if hasattr(muon, "_enable_muon_cube_math_type") and not hasattr(op_precision, "cube_math_type"):
        muon._enable_muon_cube_math_type = _leave_as_it_is


def _leave_as_it_is() -> None:
    """The rule `pynative-precision` tells it."""
