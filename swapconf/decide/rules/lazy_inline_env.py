r"""lazy-inline-variable: without pipeline parallelism, older versions need ENABLE_LAZY_INLINE_NO_PIPELINE=1.

Documented as a constraint; mindformers 1.9.0 has no such variable (measured). Which versions need it stands in
upstream/facts.py. Fails with mindformers 1.6.0: the variable unset.
Passes: ``export ENABLE_LAZY_INLINE_NO_PIPELINE=1``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "lazy-inline-variable"
VARIABLE = "ENABLE_LAZY_INLINE_NO_PIPELINE"


def check(case: Case) -> Iterator[Finding]:
    if not case.config.swap_on or case.config.pipeline.num_stages > 1 or case.environment.get(VARIABLE) == "1":
        return
    fact = case.versions.fact("lazy_inline_variable_needed")
    if fact.value:
        yield finding(
            RULE,
            Severity.WARNING,
            case.config.origin("swap_config.swap"),
            phrase(
                "mindformers {version} needs {variable}=1 for swap without pipeline parallelism ({source})",
                version=case.versions.mindformers,
                variable=VARIABLE,
                source=fact.source,
            ),
            phrase("export {variable}=1 before the launch", variable=VARIABLE),
        )
