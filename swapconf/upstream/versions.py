"""VERSION: a release of MindSpore or mindformers as text, what makes it one, and how two compare."""

from __future__ import annotations

import re

from swapconf.upstream.releases import MINDFORMERS, OLDER_PAIRS
from swapconf.words.phrases import phrase

_FORM = re.compile(
    r"(\d+(?:\.\d+){1,3})(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|post|dev)\.?\d*)*(?:\+[\w.]+)?", re.IGNORECASE
)

# by mindformers release, the MindSpore it is released for ("prefer" of VERSION_MAP.json, and the only one of "support")
OFFICIAL_PAIRS = {**OLDER_PAIRS, **{one.version: one.released_for for one in MINDFORMERS if one.released_for}}
PYNATIVE = "2.0.0"  # the first mindformers with PyNative's sections
EXCLUDE_BY_PATH = "2.1.0"  # from here on, `recompute.exclude_op` maps paths to layers; before, it listed operator names
_EXISTING = {"mindspore": tuple(OFFICIAL_PAIRS.values()), "mindformers": tuple(OFFICIAL_PAIRS)}
TITLES = {"mindspore": "MindSpore", "mindformers": "mindformers"}


class BadVersion(ValueError):
    """A text that is no version, or one of a release that never was; says which are."""


def release(version: str) -> tuple[int, ...] | None:
    """The numbers of a version, without trailing zeros, ``2.10.0rc1`` as ``(2, 10)``; None for what is no version."""
    match = _FORM.fullmatch(version.strip())
    if match is None or len(match[1]) > 40:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def reached(version: str, first: str) -> bool:
    """Whether a version is ``first`` or later. What is no version (a build of one's own) counts as the latest."""
    found = release(version)
    return found is None or found >= (release(first) or ())


def same(version: str, other: str) -> bool:
    """Whether two texts name one release: ``2.9`` and ``2.9.0``, or a build of it, ``2.9.0+own``; not a preview."""
    numbers = release(version)
    return numbers is not None and numbers == release(other) and _final(version) and _final(other)


def _final(version: str) -> bool:
    return version.partition("+")[0].strip().replace(".", "").isdigit()


def checked(package: str, version: str) -> str:
    """The version that a person gave for ``mindspore`` or ``mindformers``, stripped.

    One that is later than all that swapconf knows, or between two of them, is taken (a rule names it). Raises
    BadVersion for a text that is no version, and for one before the first that swapconf knows which never was.
    """
    text, existing = version.strip(), _EXISTING[package]
    if release(text) is None:
        raise BadVersion(
            phrase(
                "`{version}` is not a version of {package}; write one such as {example}",
                version=version,
                package=TITLES[package],
                example=existing[-2],
            )
        )
    if not reached(text, existing[0]):
        raise BadVersion(
            phrase(
                "there is no {package} {version}, or swapconf does not know it; the first that it "
                "knows is {first}, the latest {last}",
                package=TITLES[package],
                version=text,
                first=existing[0],
                last=existing[-1],
            )
        )
    return text


def partner(package: str, version: str) -> str | None:
    """The official partner of a release of ``package``: MindSpore's of mindformers, and the other way round."""
    pairs = OFFICIAL_PAIRS if package == "mindformers" else {value: key for key, value in OFFICIAL_PAIRS.items()}
    return next((other for one, other in pairs.items() if same(one, version)), None)
