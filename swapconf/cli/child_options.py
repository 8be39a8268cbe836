"""The options of commands that dry-run YAMLs, one child for each rank: each is declared here once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from swapconf.cli.numbers import SECONDS

if TYPE_CHECKING:
    from swapconf.dryrun.pynative.expert_load import ExpertLoad

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """How children run, where and for how long.

    Attributes:
        jobs: Children at once; None for as many as fit.
        dask: The address of a Dask cluster; None for this machine.
        keep: The folder for the traces; None where they are not kept.
        fold: Whether fewer of many equal layers and micro-batches may run.
        timeout: Seconds for each rank.
        no_cache: Whether what was run before is run again.
        register_path: The folder with the code of models that mindformers does not have; None for none.
        load: Of the experts; None where it is not asked for, and no option of every command.
    """

    jobs: int | None
    dask: str | None
    keep: Path | None
    fold: bool
    timeout: float
    no_cache: bool
    register_path: str | None
    load: ExpertLoad | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildOptions(RunOptions):
    """Which of them, too. ``ranks``: ``stages``, ``all`` or numbers, as `ranks_of` takes them."""

    ranks: str


JOBS = click.option("--jobs", type=click.IntRange(1), help="Children at once (default: by cores and memory).")
DASK = click.option("--dask", metavar="ADDRESS", help="Run on this Dask cluster instead of here.")
TIMEOUT = click.option(
    "--timeout", type=SECONDS, default=3600.0, show_default=True, metavar="SECONDS", help="Limit per rank."
)
EXPERT_LOAD = click.option(
    "--expert-load",
    metavar="even|FACTOR|FILE",
    help="PyNative: the tokens of experts, which no simulated device counts: as many for each; FACTOR times as many on "
    "the first of the ranks that share them out; or as FILE (YAML, JSON, CSV) has them for each expert.",
)


def ranks_option(text: str, default: str = "stages") -> Callable[[F], F]:
    return click.option("--ranks", default=default, show_default=True, metavar="stages|all|0,7", help=text)


def fold_option(text: str) -> Callable[[F], F]:
    return click.option("--fold/--no-fold", default=True, show_default=True, help=text)


def keep_option(text: str, *, file_okay: bool = True) -> Callable[[F], F]:
    return click.option("--keep", type=click.Path(path_type=Path, file_okay=file_okay), metavar="DIR", help=text)


def no_cache_option(text: str) -> Callable[[F], F]:
    return click.option("--no-cache", is_flag=True, help=text)
