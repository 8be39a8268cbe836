"""SWEEP -> TEXT: the peak, and the time of a step where a card is given, against the prefetch, one above the other.

What a column stands for is the worst of its prefetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from swapconf.whatif.sweep import LayerChoice, Point, best_of_layers, best_overall, lowest
from swapconf.words.phrases import joined, phrase, plural
from swapconf.words.units import show_bytes

_BARS = " ▁▂▃▄▅▆▇█"
_HEIGHT, _WIDTH = 10, 100
_INDENT = " " * 10
NUM_LAYERS = 12


def chart(points: Sequence[Point]) -> list[str]:
    """Lines of text; `!` below marks where two copies of a tensor live at once, `x` where MindSpore cannot compile."""
    columns = min(len(points), _WIDTH)
    groups = [points[index * len(points) // columns : (index + 1) * len(points) // columns] for index in range(columns)]
    lines: list[str] = []
    if all(point.time for point in points):
        lines += _panel(
            phrase("ms a step"),
            [max(point.time.step_us for point in group if point.time) for group in groups],
            lambda step_us: f"{step_us / 1000:.2f}",
        )
        lines.append(f"{'':>8} +{'-' * columns}")
    lines += _panel(
        phrase("used peak"),
        [float(max(point.peak_bytes for point in group)) for group in groups],
        lambda size_bytes: show_bytes(round(size_bytes)),
    )
    marks = "".join(
        "x" if any(point.crashes for point in group) else "!" if any(point.twice_bytes for point in group) else "-"
        for group in groups
    )
    lines.append(f"{'':>8} +{marks}")
    least = lowest(points)
    lines.append(
        joined(
            "",
            [
                _INDENT,
                phrase(
                    "{first} to {last}; ! two copies live on the device; x MindSpore crashes; lowest {peak} at "
                    "{prefetch}",
                    first=points[0].prefetch,
                    last=points[-1].prefetch,
                    peak=show_bytes(least.peak_bytes),
                    prefetch=least.prefetch,
                ),
            ],
        )
    )
    return lines


def _panel(title: str, tops: Sequence[float], show: Callable[[float], str]) -> Iterator[str]:
    low, high = min(tops), max(tops)
    if show(low) == show(high):  # a chart of nothing but noise
        yield joined("", [_INDENT, phrase("{title}: {figure} at every prefetch", title=title, figure=show(low))])
        return
    span = high - low
    eighths = [1 + int((8 * _HEIGHT - 1) * (top - low) / span) for top in tops]
    yield joined("", [_INDENT, title])
    for row in range(_HEIGHT - 1, -1, -1):
        label = show(low + (high - low) * (row + 1) / _HEIGHT)
        yield f"{label:>8} |" + "".join(_BARS[max(0, min(8, level - 8 * row))] for level in eighths).rstrip()


def choices(points: Sequence[Point]) -> list[str]:
    """Which prefetch is best, overall and for each layer; nothing without times."""
    best = best_overall(points)
    if best is None or best.time is None:
        return (
            [phrase("every prefetch of the sweep makes MindSpore crash")]
            if all(point.crashes for point in points)
            else []
        )
    found = best_of_layers(points)
    lines: list[str] = [
        phrase(
            "best overall: backward_prefetch {prefetch}, {time:.3f} ms a step ({waiting:.3f} ms of it waits for "
            "copies), used peak {peak}",
            prefetch=best.prefetch,
            time=best.time.step_us / 1000,
            waiting=best.time.exposed_copy_us / 1000,
            peak=show_bytes(best.peak_bytes),
        )
    ]
    lines += [
        phrase("layer {layer}: {choice}", layer=choice.layer, choice=_told(choice)) for choice in found[:NUM_LAYERS]
    ]
    if len(found) > NUM_LAYERS:
        lines.append(
            plural(
                len(found) - NUM_LAYERS,
                "and {count} more layer (--format json has all)",
                "and {count} more layers (--format json has all)",
            )
        )
    return lines


def _told(choice: LayerChoice) -> str:
    if choice.best is not None:
        return phrase("{prefetch}; nothing is waited for or held twice", prefetch=choice.best)
    trades = []
    if choice.single is not None:
        trades.append(
            phrase(
                "at {prefetch} nothing is held twice, and {time:.1f} us are waited for",
                prefetch=choice.single[0],
                time=choice.single[1],
            )
        )
    if choice.punctual is not None:
        trades.append(
            phrase(
                "at {prefetch} nothing is waited for, and {size} are held twice",
                prefetch=choice.punctual[0],
                size=show_bytes(choice.punctual[1]),
            )
        )
    else:
        trades.append(phrase("every prefetch is waited for"))
    return phrase("none; {trades}", trades=joined("; ", trades))
