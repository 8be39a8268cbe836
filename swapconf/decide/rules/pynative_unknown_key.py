r"""pynative-unknown-key: a key of `training` or `parallelism` that mindformers does not have, in PyNative mode.

It stops while it reads the YAML: ``ValueError: Unknown configuration keys for ParallelismConfig``. Of a release after
those whose keys are known, where it may be a new one, it is a warning. Source: mindformers 2.0.0 and 2.1.0,
pynative/config/config.py, BaseConfig.from_dict.

Fails: ``parallelism: {tensor_paralel: 2}``, and with 2.0.0 ``training: {rampup_batch_size: ..}``, which begins with
2.1.0. Passes: ``parallelism: {tensor_parallel: 2, sequence_parallel: True}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config import misplaced
from swapconf.config.meant import meant
from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import native_keys
from swapconf.upstream.versions import reached, same
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-unknown-key"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    used = case.versions.mindformers
    is_later = reached(used, native_keys.LATEST) and not same(used, native_keys.LATEST)
    if is_later or not reached(used, native_keys.FIRST):
        used = native_keys.LATEST
    for path, origin in case.config.origins.items():
        section, dot, key = path.partition(".")
        if not dot or section not in native_keys.SECTIONS or key in native_keys.known(section, used):
            continue
        if misplaced.is_told_of(key):
            continue
        yield finding(
            RULE,
            Severity.WARNING if is_later else Severity.ERROR,
            origin,
            phrase(
                "mindformers {version} stops: it has no key `{key}` in `{section}`",
                version=used,
                key=key,
                section=section,
            ),
            _remedy(section, key, used),
        )


def _remedy(section: str, key: str, used: str) -> str:
    if (first := native_keys.since(section).get(key)) is not None:
        return phrase("it begins with mindformers {version}; leave it out", version=first)
    if (close := meant(key, native_keys.known(section, used))) is not None:
        return phrase("`{name}` was probably meant", name=close)
    return phrase("leave it out")
