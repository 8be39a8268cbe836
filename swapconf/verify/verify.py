"""FOLDER + DECIDED -> VERIFICATION: all ranks, each once; ranks that deviate in the same way are told together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf.config.cluster import Cluster
from swapconf.files import log_folder
from swapconf.files.log_folder import Stream
from swapconf.files.log_pool import read_all
from swapconf.memory.figures import Figures, impossible
from swapconf.verify import worker_logs
from swapconf.verify.decided import Decided
from swapconf.verify.deviation import (
    ABOVE,
    DIED,
    ENDED,
    NO_LOG,
    NO_PEAK,
    OTHER_RUN,
    SEVERAL,
    STRANGE,
    UNKNOWN,
    UNREAD,
    Deviation,
    counted,
)
from swapconf.verify.ended import RankEnd, deviations, of_no_rank
from swapconf.verify.one_rank import Comparison
from swapconf.verify.predicted_peaks import PredictedPeaks
from swapconf.verify.worker_logs import LoggedEntry, Said, Told
from swapconf.words.findings import Finding, Origin, Severity, in_order
from swapconf.words.phrases import mark, phrase
from swapconf.words.rules import LOGS
from swapconf.words.units import MIB, show_bytes

_MOST_NAMES = 4


@dataclass(frozen=True, kw_only=True)
class RankVerdict:
    """One rank: what its logs say, what was predicted, and the rules that it breaks (notes not counted). ``end``: how
    it died, "" where it did not."""

    rank: int
    stage: int
    said: Said | None
    predicted: PredictedPeaks | None
    rules: tuple[str, ...]
    end: str = ""

    @property
    def is_as_decided(self) -> bool:
        """It did what was decided, however it ended."""
        return set(self.rules) <= {DIED}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """``findings`` tell equal ranks together; ``ranks`` in order."""

    findings: tuple[Finding, ...]
    ranks: tuple[RankVerdict, ...]

    @property
    def agrees(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    @property
    def is_as_decided(self) -> bool:
        """It agrees, but for how the run ended."""
        return all(one.severity is Severity.NOTE or one.rule == DIED for one in self.findings)


def verify(
    folder: Path,
    decided: Decided,
    cluster: Cluster,
    ranks: Iterable[int],
    predicted: Mapping[int, PredictedPeaks],
    slack_bytes: int = 0,
    jobs: int = 1,
    ends: Sequence[RankEnd] = (),
) -> Verification:
    """Compare the logs below a folder with a config. ``ranks``: those that must have one; others are compared, too.
    ``ends``: how ranks died, the one that began first.

    Raises OSError where the folder cannot be listed.
    """
    streams, packed = log_folder.find(folder)
    logs, runs_of, trouble = _by_rank(streams, read_all(streams, worker_logs.read, jobs), cluster)
    trouble += [(path, phrase("it is compressed")) for path in packed]
    here = str(folder)
    found: dict[Deviation, dict[int, int]] = defaultdict(dict)
    general = [
        Finding(
            origin=Origin(file=path),
            rule=UNREAD,
            severity=Severity.WARNING,
            message=phrase("not read: {reason}", reason=why),
            hint=phrase("unpack it, make it readable, or name it worker_RANK.log"),
        )
        for path, why in trouble
    ]
    if cluster.num_devices == 1:
        ends = [replace(end, rank=0) for end in ends]
    general += of_no_rank(ends)
    comparison = Comparison(decided, here)
    if not decided.is_known:
        general.append(
            Finding(
                origin=Origin(file=here),
                rule=UNKNOWN,
                severity=Severity.NOTE,
                message=phrase("the operators of this model are not known"),
                hint=phrase("only logs, warnings and peaks are looked at; `swapconf families` lists models"),
            )
        )
    verdicts = []
    for rank in sorted({*ranks, *logs}):
        said, peaks = logs.get(rank), _prediction(rank, cluster, predicted)
        several = _several(runs_of.get(rank, ()), folder)
        told = dict.fromkeys(_absent(rank, said, cluster, here), 0)
        if said is not None and not told:
            told.update(dict.fromkeys(comparison.of(said, cluster.stage_of(rank)), 0))
            told.update(_peaks(said, peaks, slack_bytes, here))
            told.update(dict.fromkeys(_strange(said, here), 0))
        died = list(deviations(ends, rank))
        told.update(dict.fromkeys([*died, *several], 0))
        for deviation, excess_bytes in told.items():
            found[deviation][rank] = excess_bytes
        verdicts.append(
            RankVerdict(
                rank=rank,
                stage=cluster.stage_of(rank),
                said=said,
                predicted=peaks,
                rules=tuple(sorted({item.rule for item in told if LOGS[item.rule][0] != "note"})),
                end=died[0].message if died else "",
            )
        )
    findings = [_finding(deviation, ranks) for deviation, ranks in found.items()]
    return Verification(findings=in_order([*general, *findings]), ranks=tuple(verdicts))


def _by_rank(
    streams: list[Stream], told: Iterable[Told], cluster: Cluster
) -> tuple[dict[int, Said], dict[int, tuple[Path, ...]], list[tuple[str, str]]]:
    """What each rank's logs say, the folders of the runs that they are of, and what could not be read or belongs to no
    rank."""
    logs: dict[int, Said] = {}
    places: dict[tuple[int, str], list[Path]] = defaultdict(list)
    trouble: list[tuple[str, str]] = []
    known: dict[frozenset[LoggedEntry], frozenset[LoggedEntry]] = {}  # most ranks say the same, which is held once
    for stream, one in zip(streams, told, strict=True):
        trouble += one.trouble
        for name, said in one.by_rank.items():
            rank = 0 if name is None and cluster.num_devices == 1 and len(streams) == 1 else name
            if rank is not None:
                places[rank, stream.kind].append(stream.run)
                both = worker_logs.merge([logs[rank], said] if rank in logs else [said])
                logs[rank] = replace(both, entries=known.setdefault(both.entries, both.entries))
            elif said.entries or said.used_peak_bytes is not None:
                trouble.append((str(stream.paths[-1]), phrase("neither its name nor its lines tell the rank")))
    runs_of: dict[int, tuple[Path, ...]] = {}
    for (rank, _), folders in places.items():
        runs_of[rank] = max(runs_of.get(rank, ()), tuple(dict.fromkeys(folders)), key=len)
    return logs, runs_of, trouble


def _several(folders: Sequence[Path], top: Path) -> Iterator[Deviation]:
    if len(folders) > 1:
        names = ", ".join(
            [
                *(str(folder.relative_to(top)) for folder in folders[:_MOST_NAMES]),
                *["..."] * (len(folders) > _MOST_NAMES),
            ]
        )
        yield Deviation(
            SEVERAL,
            Origin(file=str(top)),
            phrase("the logs of {count} runs are read as one: {folders}", count=len(folders), folders=names),
            phrase("name the folder of one run"),
        )


def _prediction(rank: int, cluster: Cluster, predicted: Mapping[int, PredictedPeaks]) -> PredictedPeaks | None:
    """Of the rank itself, else of another one of its stage, which holds the same."""
    if rank in predicted:
        return predicted[rank]
    stage = cluster.stage_of(rank)
    return next((peaks for other, peaks in sorted(predicted.items()) if cluster.stage_of(other) == stage), None)


def _absent(rank: int, said: Said | None, cluster: Cluster, folder: str) -> Iterator[Deviation]:
    if rank >= cluster.num_devices:
        yield Deviation(
            NO_LOG,
            Origin(file=folder),
            phrase("there is a log, but the config describes {devices} devices only", devices=cluster.num_devices),
            OTHER_RUN,
        )
    elif said is None:
        yield Deviation(
            NO_LOG,
            Origin(file=folder),
            phrase("there is no log"),
            phrase(
                "collect the logs of all nodes in one folder, as worker_RANK.log or rank_RANK/info.log, or name the "
                "ranks that have one with --ranks"
            ),
        )


def _peaks(
    said: Said, predicted: PredictedPeaks | None, slack_bytes: int, folder: str
) -> Iterator[tuple[Deviation, int]]:
    """What is wrong with the peaks of a rank, and by how many bytes."""
    if said.used_peak_bytes == 0:
        yield (
            Deviation(
                ENDED,
                Origin(file=folder),
                phrase("the logged peak is 0, so that no step was run"),
                phrase("look for an error in the log"),
            ),
            0,
        )
        return
    if predicted is None:
        return
    if said.used_peak_bytes is None:
        yield (
            Deviation(NO_PEAK, Origin(file=folder), phrase("no peak is logged"), phrase("let the run end by itself")),
            0,
        )
        return
    for above, logged, limit in (
        (mark("the used peak is above the predicted {size}"), said.used_peak_bytes, predicted.used_bytes),
        (
            mark("the peak with fragments is above the predicted {size}"),
            said.with_fragments_peak_bytes,
            predicted.with_fragments_bytes,
        ),
    ):
        # the log rounds down to whole MiB
        if logged is not None and limit is not None and logged > limit // MIB * MIB + slack_bytes:
            yield (
                Deviation(
                    ABOVE,
                    Origin(file=folder),
                    phrase(above, size=show_bytes(limit)),
                    phrase(
                        "predicted by {origin}; allow for the difference with --slack, or see what fills the memory "
                        "with `swapconf memory`",
                        origin=predicted.origin,
                    ),
                ),
                logged - limit,
            )


def _strange(said: Said, folder: str) -> Iterator[Deviation]:
    figures = Figures(
        used_peak=said.used_peak_bytes,
        mapped_peak=said.with_fragments_peak_bytes,
        limit=said.limit_bytes,
        device=said.device_bytes,
    )
    for what, hint in impossible(figures):
        yield Deviation(STRANGE, Origin(file=folder), what, hint)


def _finding(deviation: Deviation, excess_bytes: Mapping[int, int]) -> Finding:
    """``excess_bytes``: by rank, 0 where nothing is measured."""
    ranks, message, most = counted("rank", excess_bytes), deviation.message, max(excess_bytes.values())
    if most:
        size = show_bytes(most)
        message = (
            phrase("{message}, by up to {size}", message=message, size=size)
            if len(excess_bytes) > 1
            else phrase("{message}, by {size}", message=message, size=size)
        )
    return Finding(
        origin=deviation.origin,
        rule=deviation.rule,
        severity=Severity(LOGS[deviation.rule][0]),
        message=phrase("{ranks}: {message}", ranks=ranks, message=message),
        hint=deviation.hint,
    )
