r"""pipeline-scheduler: a ``pipeline_config`` that MindSpore does not take.

mindformers hands ``parallel.pipeline_config`` over as it is, whatever the number of stages, and MindSpore stops before
anything is built: at a missing key of the two, at another key, at a schedule that it does not have, and without
interleave at any but ``1f1b``. Source: MindSpore 2.9.0, parallel/_auto_parallel_context.py:938
(``set_pipeline_config``); executed with mindformers 1.9.0.

Fails: ``pipeline_config: {pipeline_interleave: False, pipeline_scheduler: gpipe}``. Passes: ``pipeline_config:
{pipeline_interleave: True, pipeline_scheduler: gpipe}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swapconf.decide.layout import layout_of
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.conditional import INTERLEAVE, SCHEDULE, SCHEDULER, SCHEDULERS
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pipeline-scheduler"
_USUAL = SCHEDULERS[0]


def check(case: Case) -> Iterator[Finding]:
    given = case.config.given.get(SCHEDULE)
    if not isinstance(given, Mapping) or layout_of(case.config) is None:
        return
    known = (INTERLEAVE, SCHEDULER)
    strange = [str(key) for key in given if key not in known]
    if strange:
        yield _stop(
            case,
            strange[0],
            phrase("`pipeline_config` takes `{known}` alone, and MindSpore stops", known="` and `".join(known)),
            phrase("remove `{key}`", key=strange[0]),
            "Unknown config",
        )
        return
    for key, usual in zip(known, (False, _USUAL), strict=True):
        if key not in given:
            yield _stop(
                case,
                key,
                phrase("`pipeline_config` without `{key}`: MindSpore reads it, and stops", key=key),
                phrase("write `{key}: {value}` into it, or remove `pipeline_config`", key=key, value=str(usual)),
                f"KeyError: '{key}'",
            )
            return
    yield from _values(case, given[INTERLEAVE], given[SCHEDULER])


def _values(case: Case, interleave: object, scheduler: object) -> Iterator[Finding]:
    if not isinstance(interleave, bool):
        yield _stop(
            case,
            INTERLEAVE,
            phrase("`{key}` is True or False, not '{text}'", key=INTERLEAVE, text=str(interleave)),
            phrase("write `{key}: {value}`", key=INTERLEAVE, value="False"),
            f"'{INTERLEAVE}' must be a bool",
        )
    elif scheduler not in SCHEDULERS:
        yield _stop(
            case,
            SCHEDULER,
            phrase("MindSpore has no schedule '{name}', and stops", name=str(scheduler)),
            phrase("it has {names}", names=", ".join(SCHEDULERS)),
            "The 'parameter' must be str",
        )
    elif not interleave and scheduler != _USUAL:
        yield _stop(
            case,
            SCHEDULER,
            phrase("without `{key}: True` MindSpore takes `{usual}` alone, and stops", key=INTERLEAVE, usual=_USUAL),
            phrase("write `{key}: {value}`", key=SCHEDULER, value=_USUAL),
            f"When {INTERLEAVE} is False",
        )


def _stop(case: Case, key: str, message: str, hint: str, words: str) -> Finding:
    """At the key, or at the section that lacks it."""
    origin = case.config.origin(f"{SCHEDULE}.{key}", SCHEDULE)
    return finding(RULE, Severity.ERROR, origin, message, hint, stops_with=words)
