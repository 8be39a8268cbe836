"""What commands share that tell times: on which card, and from which profile of a real run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from swapconf.cost import Prices

F = TypeVar("F", bound=Callable[..., Any])


def hardware_options(function: F) -> F:
    """``--hardware``, ``--measured``, ``--cards-per-host`` and ``--host-bandwidth``, for `prices`."""
    function = click.option(
        "--host-bandwidth", type=click.FloatRange(0, min_open=True), metavar="GB/S",
        help="10^9 bytes a second in one direction that they share (default: no limit but the card's link).")(function)
    function = click.option(
        "--cards-per-host", type=click.IntRange(1), default=1, show_default=True, metavar="N",
        help="How many cards of a host copy at once.")(function)
    function = click.option(
        "--measured", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
        help="ASCEND_PROFILER_OUTPUT of a real run: its kernel_details.csv, op_statistic.csv and trace_view.json "
             "replace the model.")(function)
    return click.option(
        "--hardware", "profile", default="generic", show_default=True, metavar="NAME|FILE",
        help="ascend_910b1, ascend_910b2, ascend_910b3, ascend_910b4, ascend_910_93, ascend_910a, generic, or a file "
             "of your own.")(function)


def prices(profile: str, measured: Path | None, cards_per_host: int, host_bandwidth: float | None) -> Prices:
    """What the options say. Raises SwapconfError where a file cannot be read."""
    from swapconf.cost import Host, Prices
    from swapconf.formats import hardware, profiler_folder

    return Prices(hardware=hardware.load(profile), measured=profiler_folder.read(measured) if measured else None,
                  host=Host(cards=cards_per_host, bandwidth_gbps=host_bandwidth or float("inf")))
