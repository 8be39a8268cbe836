r"""plain-mindformers-differs: mindformers alone refuses it, or drops it, and then swapconf drops it, too.

What it refuses works under ``swapconf run`` (measured): nested lists in ``layers``; ``{pattern: True}`` or
``{pattern: False}`` in select_recompute with swap on; a last pattern element that matches every name (``.*``), on which
mindformers stops with an AttributeError about ``cell_init_args``.

What it drops would cost memory or time that a job which fits on mindformers alone may not have. So it does not count
under ``swapconf run`` and in a dry run either, unless a comment ``# swapconf: apply[KEY]`` in the YAML, or ``apply`` in
the settings, has it count: ``mp_comm_recompute: False``; ``recompute_slice_activation: True`` beside a list of layers;
exclude lists beside swap, and a selection that an exclusion repeats, which mindformers takes out of all layers.
Source: mindformers 1.7.0 to 2.1.0, training_graph/transformer/utils.py, LayerSetting.

Fails: ``mp_comm_recompute: False`` with ``recompute: True``. Passes, with a note: the same beside the comment
``# swapconf: apply[mp_comm_recompute]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from swapconf.config.config import Config, EveryLayer
from swapconf.decide.patterns import BadPattern, last_fits
from swapconf.decide.requests import repeated
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream import dropped
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "plain-mindformers-differs"
_ATTRIBUTE_THAT_RAISES = "cell_init_args"


def check(case: Case) -> Iterator[Finding]:
    config, recompute = case.config, case.config.recompute
    for entry in case.patterns():
        if _matches_every_name(entry.pattern):
            yield finding(
                RULE,
                Severity.WARNING,
                entry.origin,
                phrase(
                    "plain mindformers stops here with \"no attribute '{name}'\": the last element matches every name",
                    name=_ATTRIBUTE_THAT_RAISES,
                ),
                phrase("run it through swapconf, or name the operators"),
                stops_with=f"no attribute '{_ATTRIBUTE_THAT_RAISES}'",
            )
    if config.swap_on:
        for selected in (*recompute.select, *recompute.select_comm):
            if isinstance(selected.layers, EveryLayer) and not selected.builtin:
                yield finding(
                    RULE,
                    Severity.WARNING,
                    selected.origin,
                    phrase("with swap on, plain mindformers takes only a list here, though True is documented"),
                    phrase("run it through swapconf, or list every layer index"),
                    stops_with="must be list when enabling swap",
                )
    yield from _dropped(case)


def _dropped(case: Case) -> Iterator[Finding]:
    config, recompute = case.config, case.config.recompute
    if not recompute.mp_comm_recompute and (recompute.full is not None or recompute.select):
        yield _told(
            config,
            dropped.MP_COMM,
            config.origin(f"recompute_config.{dropped.MP_COMM}"),
            phrase("mindformers alone drops `mp_comm_recompute: False`"),
            phrase(
                "what communication makes in recomputed layers stays in memory (TeleChat3-36B at published shape: 87.9 "
                "instead of 45.7 GB), and is not communicated again"
            ),
        )
    full = recompute.full
    if recompute.recompute_slice_activation and full is not None and not isinstance(full.layers, EveryLayer):
        yield _told(
            config,
            dropped.SLICE,
            config.origin(f"recompute_config.{dropped.SLICE}"),
            phrase("mindformers alone drops `recompute_slice_activation` where `recompute` is a list"),
            phrase(
                "each rank keeps a slice of what a recomputed layer is given and gathers it again, which takes time"
            ),
        )
    lists = {
        "select_recompute": (recompute.select, recompute.select_exclude),
        "select_comm_recompute": (recompute.select_comm, recompute.select_comm_exclude),
    }
    for kind, (selected, excluded) in lists.items():
        key = dropped.EXCLUDES[kind]
        if config.swap_on and excluded:
            yield _told(
                config,
                key,
                excluded[0].origin,
                phrase("mindformers alone drops `{key}` while swap is on", key=key),
                phrase("what is excluded stays in memory, and does not run again"),
            )
        repeats = repeated(replace(config, applied=frozenset()), kind)
        for entry in (entry for entry in selected if entry.pattern in repeats):
            yield _told(
                config,
                key,
                entry.origin,
                phrase("mindformers alone drops this selection from all layers, as `{key}` repeats it", key=key),
                phrase("it runs again in the layers where it is not excluded"),
            )


def _told(config: Config, key: str, origin: Origin, what: str, effect: str) -> Finding:
    """A warning where it does not count, a note where it does, by its setting."""
    if key in config.applied:
        return finding(
            RULE,
            Severity.NOTE,
            origin,
            phrase("{what}; here it counts, as `apply` says: {effect}", what=what, effect=effect),
            phrase("nothing to do; run it through swapconf"),
        )
    return finding(
        RULE,
        Severity.WARNING,
        origin,
        phrase("{what}, and so it does not count here either", what=what),
        phrase(
            "nothing to do if the job is to run as before; write `# swapconf: apply[{key}]` to have it count: {effect}",
            key=key,
            effect=effect,
        ),
    )


def _matches_every_name(pattern: str) -> bool:
    try:
        return last_fits(pattern, _ATTRIBUTE_THAT_RAISES)
    except BadPattern:
        return False
