"""``swapconf calibrate``: a hardware file of one's own from profiles of real runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swapconf.cli.common import print_findings, say, write_out
from swapconf.cli.complete import hardware_profiles
from swapconf.cli.help import Command
from swapconf.cli.outputs import OUT_FILE
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import joined, phrase, plural

if TYPE_CHECKING:
    from swapconf.timing.calibration import Calibration
    from swapconf.timing.cost import Hardware
    from swapconf.timing.held_out import Judged, Trial
    from swapconf.timing.measurements import Measured
    from swapconf.timing.recognition import Likeness

RULE = "card-of-profile"
_OWN = ", calibrated"  # ends the name of a card


@click.command(cls=Command)
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="PROFILE...")
@click.option(
    "--hardware",
    "profile",
    metavar="NAME|FILE",
    shell_complete=hardware_profiles,
    help="The card that the profiles are of: ascend_910b2 and so on, as of `swapconf timeline`; or a file that is "
    "calibrated further (default: the card that the profile looks like).",
)
@click.option(
    "--output", "-o", "file", required=True, type=OUT_FILE, metavar="FILE", help="The hardware file to write."
)
def command(profiles: tuple[Path, ...], profile: str | None, file: Path) -> None:
    """Make a hardware file of your own from profiles of real runs, for `--hardware FILE` of other commands.

    A PROFILE is a folder ASCEND_PROFILER_OUTPUT, or a kernel_details.csv or op_summary_*.csv, written with shapes
    (profiler level 1 or 2). Kernels of the shapes that it has take what they took, their median. For other shapes they
    are fitted, one kind of kernel apart from the other; and copies between host and device if there is a
    trace_view.json. What was not seen stays as it was. Give profiles of one kind of card only.

    The table tells the errors of estimates of shapes that were not seen, before and after: each half of the shapes is
    judged by a fit to the other half. A fit that does not tell them clearly better is not taken. See
    docs/how-to/calibrate.md.

    The card is recognised by its cores, their clock and what it reaches. Where the profile does not look like the card
    that --hardware names, that is told.

    \b
    swapconf calibrate run/ASCEND_PROFILER_OUTPUT -o our_910b2.json
    swapconf calibrate run/ASCEND_PROFILER_OUTPUT --hardware ascend_910b2 -o our_910b2.json
    swapconf timeline traces/rank_0 --hardware our_910b2.json

    Exit codes: 0 the file was written; 2 a profile could not be read or has no shapes, its card is not recognised and
    --hardware does not name it, the file could not be written, or the command line is wrong."""
    from swapconf.timing import hardware
    from swapconf.timing.calibration import calibrated

    measured = {path: _read(path) for path in profiles}
    card = _card(profile, measured)
    kernels = [kernel for item in measured.values() for kernel in item.kernels]
    copies = [copy for item in measured.values() for copy in item.copies]
    source = "swapconf calibrate " + ", ".join(path.name or str(path) for path in profiles)
    found = calibrated(kernels, copies, card, source)
    if not found.trials and found.link_gbps is None:
        _refuse(profiles[0])
    name = card.name.removesuffix(_OWN) + _OWN
    data = hardware.as_data(name, found.figures, found.fits, found.card, found.kinds, found.seen)
    write_out(file, _text(data))
    _print(found, len(kernels))


def _text(data: Mapping[str, object]) -> str:
    """JSON, with a line for each shape."""
    rest = {name: value for name, value in data.items() if name != "shapes"}
    text = json.dumps(rest, indent=2, ensure_ascii=False)
    shapes = data.get("shapes")
    if not isinstance(shapes, list):
        return text + "\n"
    lines = ",\n    ".join(json.dumps(shape, ensure_ascii=False) for shape in shapes)
    return text.removesuffix("\n}") + f',\n  "shapes": [\n    {lines}\n  ]\n}}\n'


def _read(path: Path) -> Measured:
    """Raises SwapconfError."""
    from swapconf.profile import device_info, kernel_details, profiler_folder
    from swapconf.timing.measurements import Measured

    if path.is_dir():
        return profiler_folder.read(path)
    is_summary = path.name.startswith("op_summary")
    kernels = kernel_details.read_summary(path) if is_summary else kernel_details.read(path)
    return Measured(kernels=kernels, device=device_info.beside(path.parent))


def _card(named: str | None, measured: Mapping[Path, Measured]) -> Hardware:
    """That which is named, else that which the profiles look like. Raises SwapconfError."""
    from swapconf.timing import hardware
    from swapconf.timing.hardware_names import names
    from swapconf.timing.recognition import likeness

    cards = {name: hardware.load(name) for name in names() if name != hardware.GENERIC}
    likes = {path: likeness(item.kernels, cards, item.device) for path, item in measured.items()}
    if named is None:
        found = {like.nearest(cards) for like in likes.values() if like}
        if len(found) == 1 and len(only := found.pop()) == 1:
            _, like = next((path, like) for path, like in likes.items() if like)
            say(phrase("recognised: {card}, by {signs}", card=only[0], signs=_signs(like)))
            return cards[only[0]]
        raise SwapconfError([_unknown(path, like, like.nearest(cards)) for path, like in likes.items()])
    card = hardware.load(named)
    if named != hardware.GENERIC:
        print_findings(
            [
                _another(path, like, card, like.nearest(cards))
                for path, like in likes.items()
                if like.is_of_another(card, cards)
            ],
            err=True,
        )
    return card


def _another(path: Path, like: Likeness, named: Hardware, nearest: Sequence[str]) -> Finding:
    message = phrase("does not look like {card}: {signs}", card=named.name, signs=_signs(like))
    if nearest:
        hint = phrase("it looks like {cards}; name it with --hardware", cards=", ".join(nearest))
    else:
        hint = phrase("it looks like no card that is known here; name its own rates in a file for --hardware")
    return _finding(path, Severity.WARNING, message, hint)


def _unknown(path: Path, like: Likeness, nearest: Sequence[str]) -> Finding:
    if nearest:
        message = phrase("may be of {cards}: {signs}", cards=", ".join(nearest), signs=_signs(like))
    elif like:
        message = phrase("looks like no card that is known here: {signs}", signs=_signs(like))
    else:
        message = phrase("does not tell which card it is of")
    hint = phrase("name the card with --hardware: {cards}", cards=", ".join(_names()))
    return _finding(path, Severity.ERROR, message, hint)


def _names() -> tuple[str, ...]:
    from swapconf.timing.hardware_names import names

    return names()


def _finding(path: Path, severity: Severity, message: str, hint: str) -> Finding:
    return Finding(origin=Origin(file=str(path)), rule=RULE, severity=severity, message=message, hint=hint)


def _signs(like: Likeness) -> str:
    told = {
        phrase("{count} cores with a matrix unit", count=like.cube_cores): like.cube_cores,
        phrase("{clock:,.0f} MHz", clock=like.clock_mhz): like.clock_mhz,
        phrase("memory up to {rate:,.0f} GB/s", rate=like.memory_gbps): like.memory_gbps,
        phrase("products up to {rate:,.0f} TFLOPS", rate=like.matrix_tflops): like.matrix_tflops,
    }
    return joined(", ", (text for text, figure in told.items() if figure))


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
    from swapconf.timing.held_out import Verdict

    if found.trials:
        say(
            plural(
                kernels,
                "{count} kernel was read; {shapes} shapes of {seen} of them come out as measured, by their median",
                "{count} kernels were read; {shapes} shapes of {seen} of them come out as measured, by their median",
                seen=sum(trial.kernels for trial in found.trials.values()),
                shapes=sum(trial.shapes for trial in found.trials.values()),
            )
        )
    judged = {kind: trial for kind, trial in found.trials.items() if trial.verdict is not Verdict.TOO_FEW}
    if judged:
        say(phrase("estimates of shapes that were not seen: error, median and nine of ten, and their sum:"))
        in_words = (phrase("family"), phrase("type"), phrase("fit"))
        in_figures = (phrase("kernels"), phrase("shapes"), *(phrase("before"), phrase("of measured")))
        head = (*in_words[:2], *in_figures, phrase("after"), phrase("of measured"), in_words[2])
        print_rows(head, [_row(kind, trial) for kind, trial in judged.items()], in_words)
    if any(trial.verdict is Verdict.NOT_CLOSER for trial in judged.values()):
        say(
            phrase(
                "kept, not closer: the fit to one half of the shapes does not tell the other half clearly better than "
                "before; other shapes are estimated as before"
            )
        )
    few = sorted({trial.type for trial in found.trials.values() if trial.verdict is Verdict.TOO_FEW})
    if few:
        say(phrase("too few shapes to tell others, which are estimated as before: {types}", types=", ".join(few)))
    if found.link_gbps is not None:
        say(phrase("host link: {rate:.1f} GB/s, as copies took", rate=found.link_gbps))
    else:
        say(phrase("no large copy between host and device was seen: the host link stays as it was"))
    if found.unseen:
        say(phrase("not seen, so as before: {families}", families=", ".join(found.unseen)))


def _row(kind: str, trial: Trial) -> tuple[str, ...]:
    name = phrase("{type}, transposed", type=trial.type) if kind.endswith(" transposed") else trial.type
    cells = (*_cells(trial.held_before), *_cells(trial.held_after))
    return trial.family, name, str(trial.kernels), str(trial.shapes), *cells, phrase(trial.verdict.value)


def _cells(judged: Judged | None) -> tuple[str, str]:
    return ("-", "-") if judged is None else (f"{judged.median:.1%} {judged.ninth:.1%}", f"{judged.total:.3f}")
