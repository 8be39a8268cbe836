"""HARDWARE PROFILE -> HARDWARE: the figures of a card, from a file of one's own or one that is shipped.

```json
{"name": "my card", "figures": {"host_link_gbps": {"value": 24.5, "source": "ascend-dmi --bw -t h2d"}},
 "card": {"cube_cores": {"value": 20, "source": "npu-smi"}}}
```

Figures that a profile leaves out are those of the shipped profile ``generic``; `Hardware.assumed` names them. So are
the fits of families of kernels: those of public kernels stand in ``generic``. `swapconf calibrate` writes fits of
``kinds`` of kernels, and ``shapes`` as they were measured (`hardware_shapes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from swapconf.files.opening import read_bytes
from swapconf.files.schemas import validator
from swapconf.timing import hardware_shapes
from swapconf.timing.cost import CARD_FIGURES, FIGURES, Figure, Fit, Hardware
from swapconf.timing.families import FAMILIES
from swapconf.timing.hardware_names import LEAST_FIGURE, MOST_FIGURE, SHIPPED, names
from swapconf.timing.seen import Seen
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

GENERIC = "generic"
OF_OWN = ("least_us", "most_us")  # only of kinds
FIT_FIGURES = ("floor_us", "spread_us", "full_us", "matrix", "cached", "memory", "low", "high")
MAX_FILE_BYTES = 2**24  # a shape takes about 250
_HINT = phrase("see the profiles in swapconf/hardware; `swapconf timeline --help` names them")


def load(given: str) -> Hardware:
    """A shipped profile by name (``ascend_910b2``), or a file. Raises SwapconfError."""
    return _shipped(given) if given in names() else read(Path(given))


@cache
def _shipped(name: str) -> Hardware:
    return read(SHIPPED / f"{name}.json")


def read(path: Path) -> Hardware:
    """Raises SwapconfError with a finding for each thing that is wrong with the file."""
    data = _checked(path)
    told, card = _figures(data, "figures"), _figures(data, "card")
    missing = [name for name in FIGURES if name not in told]
    lacking_of_card = [name for name in CARD_FIGURES if name not in card]
    is_generic = path == SHIPPED / f"{GENERIC}.json"
    fits = {family: _fit(item, is_own=not is_generic) for family, item in data.get("kernels", {}).items()}
    if is_generic and (lacking := [*missing, *lacking_of_card, *(family for family in FAMILIES if family not in fits)]):
        raise SwapconfError([_finding(path, phrase("lacks {figures}", figures=", ".join(lacking)), "figures")])
    if not is_generic:
        others = _shipped(GENERIC)
        told, card, fits = {**others.figures, **told}, {**others.card, **card}, {**others.fits, **fits}
    return Hardware(
        name=data["name"],
        figures={name: told[name] for name in FIGURES},
        card={name: card[name] for name in CARD_FIGURES},
        assumed=frozenset(missing),
        assumed_of_card=frozenset(lacking_of_card),
        fits={family: fits[family] for family in FAMILIES},
        kinds={kind: _fit(item, is_own=True) for kind, item in data.get("kinds", {}).items()},
        seen=hardware_shapes.parsed(data.get("shapes", [])),
    )


def as_data(
    name: str,
    figures: Mapping[str, Figure],
    fits: Mapping[str, Fit],
    card: Mapping[str, Figure] | None = None,
    kinds: Mapping[str, Fit] | None = None,
    seen: Seen | None = None,
) -> dict[str, Any]:
    """What a profile holds, to be read by `read`."""
    told = {
        part: {item: {"value": figure.value, "source": figure.source} for item, figure in known.items()}
        for part, known in (("figures", figures), ("card", card or {}))
        if known or part == "figures"
    }
    of_kinds = {"kinds": _told(kinds, is_of_kinds=True)} if kinds else {}
    shapes = {"shapes": hardware_shapes.told(seen)} if seen else {}
    return {"name": name, **told, "kernels": _told(fits), **of_kinds, **shapes}


def _told(fits: Mapping[str, Fit], *, is_of_kinds: bool = False) -> dict[str, Any]:
    return {
        name: {
            **{item: _short(getattr(fit, item)) for item in (*FIT_FIGURES, *(OF_OWN if is_of_kinds else ()))},
            "kernels": fit.kernels,
            "source": fit.source,
        }
        for name, fit in fits.items()
    }


def _checked(path: Path) -> Any:
    data = _json(path)
    findings = [_finding(path, message, place) for place, message in _mistakes(data)]
    if findings:
        raise SwapconfError(findings)
    return data


def _figures(data: Any, part: str) -> dict[str, Figure]:
    return {
        name: Figure(value=float(item["value"]), source=item["source"]) for name, item in data.get(part, {}).items()
    }


def _fit(item: Any, *, is_own: bool) -> Fit:
    told = {name: float(item[name]) for name in (*FIT_FIGURES, *OF_OWN) if name in item}
    return Fit(**told, kernels=int(item["kernels"]), source=item["source"], is_own=is_own)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _json(path: Path) -> Any:
    try:
        text = read_bytes(path, MAX_FILE_BYTES)
        if len(text) > MAX_FILE_BYTES:
            raise SwapconfError([_finding(path, phrase("is larger than {size:,} bytes", size=MAX_FILE_BYTES))])
        return json.loads(text)
    except OSError as error:
        hint = phrase("give a file or one of {profiles}", profiles=", ".join(names()))
        raise SwapconfError(
            [
                _finding(
                    path, phrase("cannot be read ({reason})", reason=error.strerror), rule="file-not-found", hint=hint
                )
            ]
        ) from None
    except json.JSONDecodeError as error:
        raise SwapconfError(
            [_finding(path, phrase("is not JSON: {problem}", problem=error.msg), line=error.lineno, column=error.colno)]
        ) from None
    except (ValueError, RecursionError):
        raise SwapconfError([_finding(path, phrase("is not JSON"))]) from None


def _mistakes(data: Any) -> Iterator[tuple[str, str]]:
    """(place, message). JSON of Python knows NaN and infinity, which no schema refuses."""
    for error in validator("hardware").iter_errors(data):
        yield ".".join(map(str, error.absolute_path)), error.message[:200]
    yield from _not_finite(data)
    for part, name, item in _items(data):
        value = item.get("value") if isinstance(item, dict) else None
        if isinstance(value, int | float) and not value <= 0 and not LEAST_FIGURE <= value <= MOST_FIGURE:
            yield (
                f"{part}.{name}.value",
                phrase(
                    "{value} is not from {least:g} to {most:,.0f}",
                    value=str(value)[:40],
                    least=LEAST_FIGURE,
                    most=MOST_FIGURE,
                ),
            )


def _items(data: Any) -> Iterator[tuple[str, str, Any]]:
    """(part of the file, name, figure), whatever is wrong with the file."""
    for part in ("figures", "card"):
        figures = data.get(part) if isinstance(data, dict) else None
        for name, item in figures.items() if isinstance(figures, dict) else ():
            yield part, name, item


def _not_finite(data: Any) -> Iterator[tuple[str, str]]:
    """Of what the schema has bounds for, which NaN passes."""
    parts = data if isinstance(data, dict) else {}
    shapes = parts.get("shapes")
    named = ((part, fits) for part in ("kernels", "kinds") if isinstance(fits := parts.get(part), dict))
    listed = [
        *((f"{part}.{name}", item) for part, fits in named for name, item in fits.items()),
        *((f"shapes.{number}", item) for number, item in enumerate(shapes if isinstance(shapes, list) else ())),
    ]
    for place, item in listed:
        for name, value in item.items() if isinstance(item, dict) else ():
            if isinstance(value, float) and value != value:
                yield f"{place}.{name}", phrase("is not a number")


def _finding(
    path: Path,
    message: str,
    place: str = "",
    *,
    line: int = 0,
    column: int = 0,
    rule: str = "hardware-profile",
    hint: str = _HINT,
) -> Finding:
    return Finding(
        origin=Origin(file=str(path), line=line, column=column, path=place),
        rule=rule,
        severity=Severity.ERROR,
        message=message,
        hint=hint,
    )
