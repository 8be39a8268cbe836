"""PREDICTION -> a peak that the true run does not exceed."""

from __future__ import annotations

from swapconf.simulate.lifetimes import Prepared, predict
from swapconf.strategy import Strategy


def safe_peak_bytes(prepared: Prepared, strategy: Strategy) -> int:
    return predict(prepared, strategy).used_peak_bytes
