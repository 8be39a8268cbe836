r"""setting-without-effect: a setting that mindformers or MindSpore reads only beside others, and these are otherwise.

A warning where the step, the layout or the determinism of the training becomes another than the YAML says, such as
``micro_batch_num`` without stages: the batch is that much smaller. Else a note. The settings, what each needs, and the
lines of mindformers that say so are a table, swapconf/upstream/conditional.py. ``micro_batch_interleave_num`` lets the
communication of one half of a batch run beside the computation of the other: MindSpore does so for 2, with
``model_parallel``, and in no model that is lazily inlined, as with stages, gradient accumulation or swap; a note says
so where it counts, too. In a YAML for prediction (``run_mode: predict``) nothing is swapped or recomputed, as nothing
is differentiated.

Fails: ``parallel_config: {pipeline_stage: 1, micro_batch_num: 16}``.
Passes: ``parallel_config: {pipeline_stage: 2, micro_batch_num: 16}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swapconf.decide.layout import ALGORITHM, ULYSSES_DEGREE, refused_algorithm, sequence_parts
from swapconf.decide.lazy_inline import lazily_inlined
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.conditional import LINES_OF, SEQUENCE_PARTS, TABLE, Conditional, Need
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

RULE = "setting-without-effect"
_LONGEST = 40  # characters of a value that are shown


class _Void(NamedTuple):
    """``need``: the first that does not hold, None where lazy inline is in the way, or would be."""

    entry: Conditional
    path: str
    need: Need | None


def check(case: Case) -> Iterator[Finding]:
    if mode := case.config.mode_without_gradient:
        if case.asks_for_anything:
            yield _in_prediction(case, mode)
        return
    groups: dict[object, list[_Void]] = {}
    for void in _voids(case):
        together = void.need if void.need is not None and void.need.path == ("use_parallel",) else void.path
        groups.setdefault(together, []).append(void)
    for group in groups.values():
        counts = group[0].need is None and not lazily_inlined(case.config, case.versions)
        yield _counts_yet(case, group[0]) if counts else _finding(case, group)


def _voids(case: Case) -> Iterator[_Void]:
    given = case.config.given
    counts: set[str] = set()  # what is not without effect: it stops the training
    if refused_algorithm(case.config, case.versions.mindformers):
        counts |= {ALGORITHM, ULYSSES_DEGREE}
    if sequence_parts(case.config, case.network) > 1:
        counts.add(SEQUENCE_PARTS)
    for entry in TABLE:
        if entry.path[0] in counts:
            continue
        path = next((path for path in entry.path if given.get(path) is not None), None)
        if path is None or not _asks(given[path], entry) or any(given.get(other) is not None for other in entry.unless):
            continue
        if entry.since and not reached(case.versions.mindformers, entry.since):
            continue
        if entry.legacy and not case.config.model.legacy:
            continue
        failed = next((need for need in entry.needs if not need.holds(given)), None)
        if failed is not None:
            yield _Void(entry, path, failed)
        elif not entry.lazily_inlined:
            yield _Void(entry, path, None)


def _asks(value: object, entry: Conditional) -> bool:
    if isinstance(value, list):
        return any(_asks(item, entry) for item in value)
    return not isinstance(value, dict) and not any(value == one and type(value) is type(one) for one in entry.nothing)


def _finding(case: Case, group: Sequence[_Void]) -> Finding:
    first = group[0]
    settings = ", ".join(f"`{void.path.rpartition('.')[2]}: {_shown(case.config.given[void.path])}`" for void in group)
    return finding(
        RULE,
        max(void.entry.severity for void in group),
        case.config.origin(first.path),
        phrase(
            "{settings}: no effect; {why} ({source})", settings=settings, why=_why(case, first), source=_source(first)
        ),
        phrase(first.entry.hint),
    )


def _counts_yet(case: Case, void: _Void) -> Finding:
    return finding(
        RULE,
        Severity.NOTE,
        case.config.origin(void.path),
        phrase(
            "`{key}: {value}` counts here, and no longer with swap, stages or gradient accumulation, as layers are "
            "lazily inlined then ({source})",
            key=void.path,
            value=case.config.given[void.path],
            source=_source(void),
        ),
        phrase("nothing to do as long as it is so"),
    )


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _why(case: Case, void: _Void) -> str:
    need, given = void.need, case.config.given
    if need is None:
        return phrase("the layers are lazily inlined, as with stages, gradient accumulation or swap")
    if not need.path:
        return phrase("nothing reads it")
    name = next((path for path in need.path if given.get(path) is not None), need.path[0])
    wanted = (
        joined(", ", map(str, need.one_of))
        if need.one_of
        else phrase("{least} or more", least=need.least)
        if need.least is not None
        else phrase("{most} at most", most=need.most)
    )
    return phrase("it needs `{name}` {wanted}, and that is {found}", name=name, wanted=wanted, found=need.value(given))


def _source(void: _Void) -> str:
    source = void.entry.source
    return source if "MindSpore" in source else phrase("mindformers {version}: {line}", version=LINES_OF, line=source)


def _in_prediction(case: Case, mode: str) -> Finding:
    return finding(
        RULE,
        Severity.NOTE,
        case.asked_at,
        phrase("nothing is swapped or recomputed with `run_mode: {mode}`: there is no backward pass", mode=mode),
        phrase("remove it, or write it into the YAML of a training"),
    )
