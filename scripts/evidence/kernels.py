"""swapconf/timing/hardware/generic.json and docs/evidence/kernel-times.md: how far kernels come up to a card's rates.

    PYTHONPATH=. python scripts/evidence/kernels.py FITTED.csv [--held-out WHOLE.csv] [--profile NAME CARD FILE ...]

FITTED.csv: rows of the public kernel_details.csv (below) that the fit may see; WHOLE.csv: all of it. FILE: a
kernel_details.csv that is calibrated by halves (calibration_table.py). Nothing of them is kept but figures. What else
is fitted stands in scripts/evidence/published/ascend_kernels.json with its sources. What no kernel tells is assumed
here.
"""

from __future__ import annotations

import argparse
import json
import random
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from calibration_table import DIVISIONS, Profile, Section, section

from swapconf.profile import kernel_details
from swapconf.timing import fit, hardware
from swapconf.timing.cost import Fit
from swapconf.timing.families import FAMILIES
from swapconf.timing.hardware_names import SHIPPED
from swapconf.timing.measurements import MeasuredKernel
from swapconf.trace.trace import Tensor

HERE = Path(__file__).parent / "published"
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "kernel-times.md"
CARD = "ascend_910b1"
HALVES = 40  # drawn by chance
PLACE = "github.com/Ascend/msprof-analyze (8399c1cd), test/ut/advisor/advisor_backend/compute_advice/kernel_details.csv"
ASSUMED = "assumed: no public kernel; in proportion to families that were seen"

# what --profile is given
PROFILES = (
    "- the profiles that are calibrated: github.com/Ascend/msinsight (4e16fca1), test/st/level2, ranks 0 and 2 "
    "(Megatron, 28 layers in two stages, hidden 1024, sequences of 4096, torch_npu 2.7.1, CANN 8.3.RC1; the card is "
    "not named), and test/data/pytorch/text/level2, rank 0 (AlexNet); and of the first source the rows that the fit "
    "saw\n"
)
# floor, spread, full in us, then of the rates of matrix unit, cache and memory; what a fit starts from. That of the AI
# CPU is from msprof-analyze, aicpu_operator_replacement_example.md:126: 9.6 ms for an IndexPut of 4 MiB
TYPICAL: Mapping[str, tuple[float, float, float, float, float, float]] = {
    "matmul": (3, 0.2, 6, 0.93, 1.5, 1.4),
    "batch_matmul": (3, 0.2, 2, 0.98, 6, 1.4),
    "grouped_matmul": (3, 0.2, 6, 0.7, 1.5, 1.4),
    "flash": (3, 0.2, 6, 0.6, 2, 2),
    "flash_causal": (3, 0.2, 6, 0.4, 2, 2),
    "flash_grad": (3, 0.2, 6, 0.78, 2, 2),
    "flash_grad_causal": (3, 0.2, 6, 0.55, 2, 2),
    "elementwise": (1.2, 0.2, 4, 1, 2.2, 0.92),
    "activation": (2, 0.3, 6, 1, 0.9, 0.85),
    "move": (1.3, 0.2, 4, 1, 2.6, 1),
    "transpose": (1.5, 0.5, 6, 1, 1.8, 0.9),
    "gather": (1.5, 0.5, 8, 1, 1.2, 0.9),
    "fill": (1.2, 0.2, 4, 1, 2, 1.25),
    "reduction": (3.6, 0, 2, 1, 1.1, 1.15),
    "norm": (4, 0.2, 6, 1, 0.5, 0.45),
    "norm_grad": (5, 0.2, 8, 1, 0.4, 0.35),
    "softmax": (4, 0.2, 6, 1, 0.6, 0.5),
    "optimizer": (2.5, 0.8, 3, 1, 0.9, 0.9),
    "random": (5, 0.2, 5, 1, 0.0115, 0.0115),
    "search": (4, 0.5, 5, 1, 0.3, 0.3),
    "ai_cpu": (100, 0, 0, 1, 0.001, 0.001),
    "other": (1.5, 0.3, 5, 1, 1, 0.8),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("fitted", type=Path)
    options.add_argument("--held-out", type=Path)
    options.add_argument("--profile", nargs=3, action="append", default=[], metavar=("NAME", "CARD", "FILE"))
    given = options.parse_args()
    seen = kernel_details.read(given.fitted)
    fitted = shipped_fits(seen)
    path = SHIPPED / "generic.json"
    generic = json.loads(path.read_text(encoding="utf-8"))
    made = generic | {"kernels": hardware.as_data("generic", {}, fitted)["kernels"]}  # the rest is not fitted
    path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    rest = tuple((Counter(kernel_details.read(given.held_out)) - Counter(seen)).elements()) if given.held_out else ()
    profiles = [Profile(name=name, card=card, file=Path(file)) for name, card, file in given.profile]
    PAGE.write_text(page(seen, rest, fitted, section(profiles)), encoding="utf-8")


def typical() -> dict[str, Fit]:
    found = {}
    for family in FAMILIES:
        floor_us, spread_us, full_us, matrix, cached, memory = TYPICAL[family]
        found[family] = Fit(
            floor_us=floor_us,
            spread_us=spread_us,
            full_us=full_us,
            matrix=matrix,
            cached=cached,
            memory=memory,
            low=0.6,
            high=1.7,
            kernels=0,
            source=ASSUMED,
        )
    return found


def public() -> list[tuple[str, tuple[MeasuredKernel, ...], str]]:
    """(card, kernels, source) of ascend_kernels.json."""
    told = json.loads((HERE / "ascend_kernels.json").read_text(encoding="utf-8"))
    return [(part["hardware"], tuple(map(_kernel, part["kernels"])), part["source"]) for part in told]


def shipped_fits(seen: Sequence[MeasuredKernel]) -> dict[str, Fit]:
    """Of kernels of the public file, and of all others that are public."""
    known = list(fit.samples(seen, hardware.load(CARD)))
    for card, kernels, _ in public():
        known += fit.samples(kernels, hardware.load(card))
    return typical() | fit.fits(known, typical(), "public kernels, see docs/evidence/kernel-times.md")


def _kernel(row: Mapping[str, object]) -> MeasuredKernel:
    def tensors(side: str) -> tuple[Tensor, ...]:
        shapes = row[side]
        assert isinstance(shapes, list)
        return tuple(Tensor(str(row["dtype"]), tuple(shape)) for shape in shapes)

    return MeasuredKernel(
        kernel="",
        device_name="",
        type=str(row["type"]),
        inputs=tensors("inputs"),
        outputs=tensors("outputs"),
        duration_us=float(str(row["us"])),
    )


HEAD = """<!-- Made by scripts/evidence/kernels.py; edit that. -->
# Kernel times against public profiles

"""


def page(
    seen: Sequence[MeasuredKernel], rest: Sequence[MeasuredKernel], fitted: Mapping[str, Fit], own: Section
) -> str:
    one, other = fit.halves(seen)
    lines = [
        HEAD,
        _paragraph(
            f"Calibrated with a half of the shapes of a public profile, {own.worse} of {own.judged} families ("
            f"{2 * DIVISIONS} halves of each profile) are estimated worse on the shapes that were not seen; "
            f"{own.worse_always} are if every fit is taken. Every shape that was seen comes out at its measured median."
        ),
        own.table,
        "\n",
        _paragraph(
            "*Before*, *after*: errors of the estimates of all kernels of shapes that were not seen, and the sum of "
            "estimates over that of what was measured. *Worse*: families of a half whose median or P90 rises by half a "
            "point or more; *always*: if the fit of each family is taken. No card was at hand."
        ),
        "Where a fit was taken, medians over these halves:\n\n",
        own.families,
        "\n",
        _paragraph(
            "A sum may be further off where medians are closer: what was too long and what was too short made up for "
            "each other. Fits are taken kind by kind (a type; products apart whose first matrix is read by columns), "
            "as halves of the shapes that were seen tell each other; beyond twice what was seen they go over into what "
            "was known."
        ),
        "## Public fits\n\n",
        _paragraph(
            "What a kernel is estimated to take that was not seen ([timeline.md](../explanation/timeline.md)) is "
            f"fitted to kernels that others measured and published. The largest source is {PLACE}: a step of a GPT "
            "(hidden 12288, 8-way tensor parallelism, 16-bit floats); 24 cores at the 1.85 GHz of its cycle counts are "
            f"an Ascend 910B1. The fit that is shipped saw {len(seen)} of its rows, and the means by shape of the "
            "other sources below."
        ),
        _paragraph(
            "*Error* is that of the estimate of a kernel against what it took; *sum* is all estimates over all that "
            "was measured. Rows without shapes and collectives are left out. In the first two rows no shape that is "
            "judged was fitted; what the fit starts from was chosen in round figures with all seen rows in view."
        ),
        "| fitted to | judged on | kernels | median error | P90 | sum | in the range |\n",
        f"|{'---|' * 7}\n",
        _error_row("half of the shapes, and the others below", "the other half", other, shipped_fits(one), CARD),
        _error_row("the other half, and the others below", "half of the shapes", one, shipped_fits(other), CARD),
        _error_row("all of these", "the same", seen, fitted, CARD),
    ]
    if rest:
        lines.append(_error_row("the same", "the rows of the file that it did not see", rest, fitted, CARD))
    lines += [_error_row("the same", f"what is public of {card}", part, fitted, card) for card, part, _ in public()]
    lines += ["\n", _paragraph(_by_chance(seen))]
    lines += ["## Sources\n\n", *(f"- {source}\n" for _, _, source in public()), PROFILES, "\n## Fits\n\n"]
    lines.append(
        _paragraph(
            "A kernel takes *floor* + *spread* for each doubling of the vector cores that it is spread over + *full* "
            "where that is all of them + its operations over *matrix* of the peak of the matrix unit + its bytes over "
            "*cached* of the peak of the memory, or over *memory* of its sustained rate. *Range*: from the few fastest "
            "to the few slowest kernels. 0 kernels: assumed."
        )
    )
    lines.append("| family | what | floor us | spread us | full us | matrix | cached | memory | range | kernels |\n")
    lines.append(f"|{'---|' * 10}\n")
    for family, what in FAMILIES.items():
        item = fitted[family]
        numbers = (item.floor_us, item.spread_us, item.full_us, item.matrix, item.cached, item.memory)
        cells = " | ".join(f"{number:.3g}" for number in numbers)
        lines.append(f"| {family} | {what} | {cells} | {item.low:.2f} to {item.high:.2f} | {item.kernels} |\n")
    lines += ["\n## History\n\n", _paragraph(HISTORY).rstrip("\n") + "\n"]
    return "".join(lines)


HISTORY = (
    "Up to now `swapconf calibrate` took the fit of every family, and no shape came out as measured: with the first "
    "profile as one of an Ascend 910B3, flash attention stayed 31 and 51 % off, element-wise kernels went from 65 to "
    "124 % at nine of ten, moves from 131 to 238 %."
)


def _by_chance(seen: Sequence[MeasuredKernel]) -> str:
    """Errors on halves of the shapes that are drawn, each fitted to the other."""
    shapes = sorted({(row.type, row.inputs, row.outputs) for row in seen}, key=repr)
    drawn = []
    for seed in range(HALVES // 2):
        chance = random.Random(seed)
        first = {shape for shape in shapes if chance.random() < 0.5}
        parts: tuple[list[MeasuredKernel], list[MeasuredKernel]] = ([], [])
        for row in seen:
            parts[(row.type, row.inputs, row.outputs) in first].append(row)
        for fitted, judged in (parts, parts[::-1]):
            drawn.append(_errors(fit.samples(judged, hardware.load(CARD)), shipped_fits(fitted)))
    median, ninth, total = np.array(drawn).T
    low, high = np.quantile(total, (0.1, 0.9))
    few, tail, near = (int(held.sum()) for held in (median <= 0.1, ninth <= 0.35, abs(total - 1) <= 0.05))
    return (
        f"Which shapes are seen matters, because few of them make most of the time. Of {HALVES} halves of the shapes "
        f"drawn by chance, each judged by the fit to the rest, the median error is {np.median(median):.1%} (at most "
        f"10% in {few}), the P90 {np.median(ninth):.1%} (at most 35% in {tail}), the sum {np.median(total):.3f} "
        f"({low:.3f} to {high:.3f} in eight of ten, within 5% in {near})."
    )


def _errors(found: Sequence[fit.Sample], fitted: Mapping[str, Fit]) -> tuple[float, float, float]:
    """Median, P90, sum."""
    ratio, us = fit.ratios(found, fitted), np.array([item.us for item in found])
    error = np.abs(ratio - 1)
    return float(np.median(error)), float(np.quantile(error, 0.9)), float((ratio * us).sum() / us.sum())


def _error_row(on: str, judged: str, kernels: Sequence[MeasuredKernel], fitted: Mapping[str, Fit], card: str) -> str:
    found = fit.samples(kernels, hardware.load(card))
    median, ninth, total = _errors(found, fitted)
    ratio = fit.ratios(found, fitted)
    low, high = (np.array([getattr(fitted[item.family], side) for item in found]) for side in ("low", "high"))
    inside = (1 / ratio >= low) & (1 / ratio <= high)
    return f"| {on} | {judged} | {len(found)} | {median:.1%} | {ninth:.1%} | {total:.3f} | {inside.mean():.0%} |\n"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, width=120, break_long_words=False, break_on_hyphens=False) + "\n\n"


if __name__ == "__main__":
    main()
