r"""dataset-strategy: with ``full_batch: False``, how the data is cut does not fit ``data_parallel``.

mindformers 1.7.0 to 1.9.0 stops before the model is built, unless ``dataset_strategy`` is a list of lists whose very
first number is ``data_parallel`` (trainer/base_trainer.py:246; core/context/parallel.py:100 passes on lists only).
``full_batch`` is True where it is not given (tools/register/template.py:411), and nothing of this is then read.

Fails: ``dataset_strategy: [[4, 1], [4, 1]]`` with ``data_parallel: 2``. Passes: ``[[2, 1], [2, 1]]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import READ_SINCE, layout_of
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "dataset-strategy"
PATH, _WHOLE = "parallel.dataset_strategy", "parallel.full_batch"


def check(case: Case) -> Iterator[Finding]:
    config, layout = case.config, layout_of(case.config)
    if layout is None or layout.data is None or config.given.get(_WHOLE) is not False:
        return
    if not reached(case.versions.mindformers, READ_SINCE):
        return
    given = config.given.get(PATH)
    if not _is_cut(given):
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(PATH, _WHOLE),
            phrase("`full_batch: False` needs a `dataset_strategy`, a list of lists, and mindformers stops without it"),
            phrase(
                "write one list for each input of the model, the first number `data_parallel`, as in [[{data}, 1]]; "
                "or write `full_batch: True`",
                data=layout.data,
            ),
            stops_with="dataset_strategy must be set as 'tuple'|object is not iterable",
        )
        return
    parts = given[0][0] if isinstance(given, list) else None
    if parts != layout.data:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(PATH),
            phrase(
                "the data is cut into {parts} parts, and `data_parallel` is {data}: mindformers stops",
                parts=parts,
                data=layout.data,
            ),
            phrase("begin each list with {data}, or write `data_parallel: {parts}`", data=layout.data, parts=parts),
            stops_with=r"should be equal to dataset_strategy\[0\]\[0\]",
        )


def _is_cut(given: object) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(one, list) for one in given) and bool(given[0])
