"""The options of every command that tells time: on which card, how measured, and what the cards of a host share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from swapconf.cost import Machine

F = TypeVar("F", bound=Callable[..., Any])


def hardware_options(function: F) -> F:
    """Adds ``profile``, ``measured``, ``cards_per_host`` and ``host_bandwidth``, which `machine` takes."""
    for option in (
        click.option("--host-bandwidth", type=click.FloatRange(0, min_open=True), metavar="GB/S",
                     help="10^9 bytes a second in one direction that they share (default: no limit but the card's "
                          "link)."),
        click.option("--cards-per-host", type=click.IntRange(1), default=1, show_default=True, metavar="N",
                     help="How many cards of a host copy at once."),
        click.option("--measured", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
                     help="ASCEND_PROFILER_OUTPUT of a real run: its kernel_details.csv, op_statistic.csv and "
                          "trace_view.json replace the model."),
        click.option("--hardware", "profile", default="generic", show_default=True, metavar="NAME|FILE",
                     help="ascend_910b1, ascend_910b2, ascend_910b3, ascend_910b4, ascend_910_93, ascend_910a, "
                          "generic, or a file of your own."),
    ):
        function = option(function)
    return function


def machine(profile: str, measured: Path | None, cards_per_host: int, host_bandwidth: float | None) -> Machine:
    """Raises SwapconfError for a file that cannot be read."""
    from swapconf.cost import Host, Machine
    from swapconf.formats import hardware, profiler_folder

    return Machine(hardware=hardware.load(profile), measured=profiler_folder.read(measured) if measured else None,
                   host=Host(cards=cards_per_host, bandwidth_gbps=host_bandwidth or float("inf")))
