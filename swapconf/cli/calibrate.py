"""``swapconf calibrate``: a hardware file of one's own from profiles of real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.common import say, write_out
from swapconf.cli.complete import hardware_profiles
from swapconf.cli.help import Command
from swapconf.cli.outputs import OUT_FILE
from swapconf.words.phrases import phrase, plural

if TYPE_CHECKING:
    from swapconf.timing.calibration import Calibration, Judged
    from swapconf.timing.measurements import Measured


@click.command(cls=Command)
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="PROFILE...")
@click.option(
    "--hardware",
    "profile",
    required=True,
    metavar="NAME|FILE",
    shell_complete=hardware_profiles,
    help="The card that the profiles are of: ascend_910b2 and so on, as of `swapconf timeline`.",
)
@click.option(
    "--output", "-o", "file", required=True, type=OUT_FILE, metavar="FILE", help="The hardware file to write."
)
def command(profiles: tuple[Path, ...], profile: str, file: Path) -> None:
    """Make a hardware file of your own from profiles of real runs, for `--hardware FILE` of other commands.

    A PROFILE is a folder ASCEND_PROFILER_OUTPUT, or a kernel_details.csv or op_summary_*.csv, written with shapes
    (profiler level 1 or 2). Kernels are fitted family by family, and copies between host and device if there is a
    trace_view.json. What was not seen stays as it is publicly known. Give profiles of one kind of card only.

    The table tells the error of estimates before and after. After: each kernel is judged by a fit to the half of the
    shapes that it is not in. See docs/how-to/calibrate.md.

    \b
    swapconf calibrate run/ASCEND_PROFILER_OUTPUT --hardware ascend_910b2 -o our_910b2.json
    swapconf timeline traces/rank_0 --hardware our_910b2.json

    Exit codes: 0 the file was written; 2 a profile could not be read or has no shapes, the file could not be written,
    or the command line is wrong."""
    from swapconf.timing import hardware
    from swapconf.timing.calibration import calibrated

    card = hardware.load(profile)
    measured = [_read(path) for path in profiles]
    kernels = [kernel for item in measured for kernel in item.kernels]
    copies = [copy for item in measured for copy in item.copies]
    source = "swapconf calibrate " + ", ".join(path.name or str(path) for path in profiles)
    found = calibrated(kernels, copies, card, source)
    if not found.fits and found.link_gbps is None:
        _refuse(profiles[0])
    data = hardware.as_data(f"{card.name}, calibrated", found.figures, found.fits)
    write_out(file, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    _print(found, len(kernels))


def _read(path: Path) -> Measured:
    """Raises SwapconfError."""
    from swapconf.profile import kernel_details, profiler_folder
    from swapconf.timing.measurements import Measured

    if path.is_dir():
        return profiler_folder.read(path)
    is_summary = path.name.startswith("op_summary")
    return Measured(kernels=kernel_details.read_summary(path) if is_summary else kernel_details.read(path))


def _refuse(path: Path) -> None:
    from swapconf.files.table_lines import INCOMPLETE
    from swapconf.profile.profiler_csv import profiler_damage

    damage = profiler_damage(path)
    damage.add(
        INCOMPLETE,
        phrase("has no kernel with its shapes, and no large copy; let the profiler write them (level 1 or 2)"),
    )
    damage.refuse()


def _print(found: Calibration, kernels: int) -> None:
    from swapconf.cli.tables import print_rows

    if found.before is not None and found.after is not None:
        seen = sum(number for number, _, _ in found.families.values())
        say(
            plural(
                kernels,
                "{count} kernel was read, {seen} fitted; errors of estimates, median and nine of ten, and their sum:",
                "{count} kernels were read, {seen} fitted; errors of estimates, median and nine of ten, and their sum:",
                seen=seen,
            )
        )
        rows = [
            (family, str(number), *_cells(before), *_cells(after))
            for family, (number, before, after) in found.families.items()
        ]
        rows.append((phrase("all"), str(seen), *_cells(found.before), *_cells(found.after)))
        head = (phrase("family"), phrase("kernels"), phrase("before"), phrase("after"))
        columns = (*head[:3], phrase("of measured"), head[3], phrase("of measured"))
        print_rows(columns, rows, ("family",))
    if found.link_gbps is not None:
        say(phrase("host link: {rate:.1f} GB/s, as copies took", rate=found.link_gbps))
    else:
        say(phrase("no large copy between host and device was seen: the host link stays as it is publicly known"))
    if found.unseen:
        say(phrase("not seen, so as publicly known: {families}", families=", ".join(found.unseen)))


def _cells(judged: Judged) -> tuple[str, str]:
    return f"{judged.median:.1%} {judged.ninth:.1%}", f"{judged.total:.3f}"
