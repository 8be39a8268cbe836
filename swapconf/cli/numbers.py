"""Numbers on the command line: finite, and within bounds that real machines keep."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

from swapconf.words.phrases import phrase, show


class Number(click.FloatRange):
    """A float from ``least`` to ``most``; infinity and what is no number are neither."""

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not isfinite(number) or not self.least <= number <= self.most:
            self.fail(
                show(
                    phrase(
                        "'{text}' is not a number from {least:g} to {most:,.0f}",
                        text=value,
                        least=self.least,
                        most=self.most,
                    )
                ),
                param,
                ctx,
            )
        return number


MOST_CARDS = 10_000
SECONDS = Number(0.001, 10_000_000)
