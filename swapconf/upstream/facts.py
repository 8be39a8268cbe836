"""FACTS of MindSpore and mindformers by version: documented unless measured otherwise; `releases` holds the data.

A fact holds from a version on. What was measured with the newest version is taken to hold for later ones, and for those
between two that were measured the earlier one's; the source then says for which version nobody measured it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from swapconf.upstream.release import FactValue, Package, Release
from swapconf.upstream.releases import MINDFORMERS, MINDSPORE, REFERENCE, documented
from swapconf.upstream.versions import TITLES, partner, reached, same
from swapconf.words.phrases import phrase

_MEASURED_ONES = tuple(release for release in MINDFORMERS if release.measured_with)
MEASURED_MINDFORMERS = tuple(release.version for release in _MEASURED_ONES)
MEASURED_PAIRS = tuple(
    (release.version, mindspore) for release in _MEASURED_ONES for mindspore in release.measured_with
)
MEASURED_MINDSPORE = tuple(release.version for release in MINDSPORE if release is not documented.MINDSPORE)


class Fact(NamedTuple):
    """A behaviour and where it is known from."""

    value: int
    source: str


class _Range(NamedTuple):
    """What holds from a version on, and with which versions that was measured; none: it is documented."""

    since: str
    said: FactValue
    measured: tuple[str, ...]


def _ranges(releases: tuple[Release, ...]) -> dict[str, tuple[_Range, ...]]:
    """By fact, from old to new; the first holds for every earlier release."""
    known: dict[str, tuple[_Range, ...]] = {}
    for release in releases:
        is_measured = release not in (documented.MINDSPORE, documented.MINDFORMERS)
        for name in release.confirms:
            *before, last = known[name]
            known[name] = (*before, last._replace(measured=(*last.measured, release.version)))
        for name, said in release.changes.items():
            known[name] = (
                *known.get(name, ()),
                _Range(
                    since="0.0" if said.for_earlier else release.version,
                    said=said,
                    measured=(release.version,) if is_measured else (),
                ),
            )
    return known


_KNOWN: dict[Package, dict[str, tuple[_Range, ...]]] = {
    "mindspore": _ranges(MINDSPORE),
    "mindformers": _ranges(MINDFORMERS),
}


def _told(held: _Range, package: Package, version: str) -> str:
    """The source, and with which version that was measured; for a version that was not, that it was not."""
    if not held.measured:
        return held.said.source
    if any(same(version, one) for one in held.measured):
        return phrase(
            "measured with {package} {version}: {source}",
            package=TITLES[package],
            version=version,
            source=held.said.source,
        )
    newest = [one for one in held.measured if reached(version, one)][-1:] or held.measured[:1]
    return phrase(
        "measured with {package} {measured}, not measured for {version}: {source}",
        package=TITLES[package],
        measured=newest[0],
        version=version,
        source=held.said.source,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Versions:
    """The versions that a config will run with. ``assumed``: the packages that are neither installed nor given."""

    mindspore: str = REFERENCE["mindspore"]
    mindformers: str = REFERENCE["mindformers"]
    assumed: tuple[str, ...] = ()

    @classmethod
    def in_use(cls, mindspore: str | None = None, mindformers: str | None = None) -> Versions:
        """What is given, else installed here; where neither is (a laptop), the official partner of the other one,
        else the pair that most was measured with."""
        return cls.among(installed(), mindspore, mindformers)

    @classmethod
    def among(cls, here: Installed, mindspore: str | None = None, mindformers: str | None = None) -> Versions:
        """The same, where it is known already what is installed."""
        one, other = mindspore or here.mindspore, mindformers or here.mindformers
        return cls(
            mindspore=one or (other and partner("mindformers", other)) or REFERENCE["mindspore"],
            mindformers=other or (one and partner("mindspore", one)) or REFERENCE["mindformers"],
            assumed=tuple(name for name, version in (("mindspore", one), ("mindformers", other)) if version is None),
        )

    def fact(self, name: str) -> Fact:
        """What holds in these versions. Raises KeyError for a name that is not in the data."""
        versions: dict[Package, str] = {"mindspore": self.mindspore, "mindformers": self.mindformers}
        for package, version in versions.items():
            if name in _KNOWN[package]:
                held = [item for item in _KNOWN[package][name] if reached(version, item.since)][-1]
                return Fact(held.said.value, _told(held, package, version))
        raise KeyError(name)


class Installed(NamedTuple):
    """The versions in this environment, None for what is not installed."""

    mindspore: str | None
    mindformers: str | None


def installed() -> Installed:
    return Installed(_installed("mindspore"), _installed("mindformers"))


def _installed(package: str) -> str | None:
    """The version of a package, without importing it; by the name of its dist-info folder, which costs least."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    for folder in Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"):
        return folder.name.removesuffix(".dist-info").removeprefix(f"{package}-")
    from importlib import metadata  # slow to import, and only needed for unusual installations

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
