"""Which hardware profiles are shipped, and the rule of a profile: known without loading what reads one."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).with_name("hardware")

# of any figure of a profile: beyond these no time can be told, and no machine is
LEAST_FIGURE, MOST_FIGURE = 1e-3, 1e9

# of a family of kernels, see `swapconf.timing.fit`
LEAST_EFFICIENCY, MOST_EFFICIENCY = 1e-4, 1e3
MOST_KERNEL_US = 1e9
MOST_US = 1e6  # of a floor; also how many times what is estimated a kernel may take


def names() -> tuple[str, ...]:
    """Of the shipped profiles."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))
