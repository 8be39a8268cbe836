"""MUON -> the same, which knows how large its parameters are where each rank has a shard. [mindformers]

A distributed parameter of hyper_parallel tells the shape of the whole, and one of the stand-in that of the part. Muon
of mindformers 2.1.0 goes by the former when it deals out the weights to the ranks that orthogonalize them, and puts
equal ones into one batch; its estimate of what a batch of parts takes goes by the latter. Source: mindformers 2.1.0,
pynative/optimizer/muon.py, _initialize_state, _recompute_muon_assigned_ranks and _build_muon_runtime_groups.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

WHOLE_SHAPE = "_whole_shape"  # of the parameter that a shard is of


def take_whole_shapes() -> None:
    from mindformers.pynative.optimizer import muon

    if not hasattr(muon, "_estimate_ns_peak_bytes"):  # 2.0.0, which is refused on shards
        return
    wholes: dict[str, Any] = {}
    parts = _Parts()
    initialize, of_parts = muon.Muon._initialize_state, muon._estimate_ns_peak_bytes

    @wraps(initialize)
    def remember(optimizer: Any) -> None:
        for name, parameter in zip(optimizer.param_name_tuple, optimizer._parameters, strict=True):
            wholes[name] = getattr(parameter, WHOLE_SHAPE, tuple(parameter.shape))
        initialize(optimizer)

    def of_wholes(estimate: Any) -> Any:
        @wraps(estimate)
        def estimated(name: str, shape: Any, *others: Any) -> Any:
            return estimate(name, shape if parts.are_asked_for else wholes.get(name, shape), *others)

        return estimated

    @wraps(of_parts)
    def estimated_of_parts(*asked: Any) -> Any:
        with parts:
            return of_parts(*asked)

    muon.Muon._initialize_state = remember
    muon._estimate_muon_work = of_wholes(muon._estimate_muon_work)
    muon._estimate_muon_piece_shapes = of_wholes(muon._estimate_muon_piece_shapes)
    muon._estimate_ns_peak_bytes = estimated_of_parts


class _Parts:
    """While it is entered, shapes are those of parts."""

    are_asked_for = False

    def __enter__(self) -> None:
        self.are_asked_for = True

    def __exit__(self, *_error: object) -> None:
        self.are_asked_for = False
