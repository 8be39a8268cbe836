"""What the commands that tell times share: options for the card, its host and a profile, and how times are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from swapconf.cli.cluster import cards_told
from swapconf.cli.common import as_one, say
from swapconf.cli.complete import hardware_profiles
from swapconf.cli.numbers import MOST_CARDS, Number
from swapconf.timing.hardware_names import LEAST_FIGURE, MOST_FIGURE
from swapconf.upstream.cann import CANN_VERSIONS
from swapconf.words.phrases import joined, phrase

if TYPE_CHECKING:
    from swapconf.timing.cost import FigureOrigin, Machine

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineOptions:
    """The machine that times are told for, as named on the command line.

    profile: the card, a name or a file; None for none, and no times.
    measured: the profiler's folder of a real run.
    cards_per_host: how many cards of a host copy at once; where it is told, hosts have so many for groups, too.
    host_bandwidth: 10^9 bytes a second in one direction that they share; None for no limit but the card's link.
    cann: the release whose rules tell the workspace of kernels; "" for the newest.
    """

    profile: str | None
    measured: Path | None
    cards_per_host: int
    host_bandwidth: float | None
    cann: str

    def load(self) -> Machine:
        """The machine, which has a card. Raises SwapconfError for files that cannot be read."""
        from swapconf.profile import profiler_folder
        from swapconf.timing import hardware
        from swapconf.timing.cost import Host, Machine

        assert self.profile is not None
        card, context = hardware.load(self.profile), click.get_current_context(silent=True)
        told = cards_told(context, self.cards_per_host) if context is not None else None
        if told is not None:
            card = card.having("cards_per_host", told, "--cards-per-host")
        return Machine(
            hardware=card,
            measured=profiler_folder.read(self.measured) if self.measured else None,
            host=Host(cards=self.cards_per_host, bandwidth_gbps=self.host_bandwidth or float("inf")),
            cann=self.cann,
        )


_CANN = click.option(
    "--cann",
    type=click.Choice(CANN_VERSIONS),
    default=CANN_VERSIONS[-1],
    show_default=True,
    help="Estimate the workspace of kernels by the rules of this release of CANN (9.0 also for 9.1 and 9.2, "
    "8.5 for older ones) and the cores of --hardware.",
)


def machine_options(default: str | None, *, cann: bool = False) -> Callable[[F], F]:
    """``--hardware``, ``--measured``, ``--cards-per-host`` and ``--host-bandwidth``, as ``machine``. ``default``: the
    card where none is given; None: then there are no times. ``cann``: whether workspace is estimated, and ``--cann`` is
    asked for."""
    told = "" if default else " Without it no time is told."
    options = (
        click.option(
            "--hardware",
            "profile",
            default=default,
            show_default=bool(default),
            metavar="NAME|FILE",
            shell_complete=hardware_profiles,
            help="ascend_910b1, ascend_910b2, ascend_910b3, ascend_910b4, ascend_910_93, ascend_910a, "
            f"generic, or a file of your own.{told}",
        ),
        click.option(
            "--measured",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="DIR",
            help="Take times from ASCEND_PROFILER_OUTPUT of a real run (kernel_details.csv, op_statistic.csv, "
            "trace_view.json) instead of estimating them.",
        ),
        click.option(
            "--cards-per-host",
            type=click.IntRange(1, MOST_CARDS),
            default=1,
            show_default=True,
            metavar="N",
            help="How many cards a host has: they copy at once, and larger groups go over the network. Without it one "
            "copies, and groups are those of hosts as --hardware tells them.",
        ),
        click.option(
            "--host-bandwidth",
            type=Number(LEAST_FIGURE, MOST_FIGURE),
            metavar="GB/S",
            help="What these cards share for their copies, in 10^9 bytes a second for each direction "
            "(default: only the link of each card limits them).",
        ),
    )

    def wrap(function: F) -> F:
        function = as_one("machine", MachineOptions)(function)
        if not cann:
            function = _without_cann(function)
        for option in reversed((*options, *[_CANN] * cann)):
            function = option(function)
        return function

    return wrap


def _without_cann(function: F) -> F:
    """A command that estimates no workspace has no option for it."""

    @wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options, cann="")

    return cast(F, command)


def shares(by_origin: Mapping[FigureOrigin, float]) -> str:
    """``measured 80%, estimated 20%``."""
    return joined(
        ", ",
        (
            phrase("{origin} {share:.0%}", origin=phrase(origin.value), share=share)
            for origin, share in by_origin.items()
        ),
    )


def known_line(by_origin: Mapping[FigureOrigin, float]) -> str:
    """How the times of a step are known that is told without it."""
    return phrase("times of kernels: {shares}", shares=shares(by_origin))


def print_assumed(machine: Machine) -> None:
    """What is not publicly known of the card."""
    if machine.hardware.assumed:
        say(
            phrase(
                "not publicly known of it, taken from the generic profile: {figures}",
                figures=", ".join(sorted(machine.hardware.assumed)),
            )
        )
