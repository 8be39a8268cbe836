"""DROPPED: the keys of `recompute_config` that mindformers reads and does nothing with, and where.

Source: mindformers 1.7.0 to 2.1.0, parallel_core/training_graph/transformer/utils.py, LayerSetting, the same in all of
them: `set_recompute` and `set_recompute_select_layer_index` call ``Cell.recompute`` with nothing but
``recompute_slice_activation``, and that only where ``recompute`` is True; exclude lists are applied by `set_recompute`
alone, which is called while swap is off; `_check_repeat_recompute` takes a selection out of all layers where an
exclusion of the same pattern, element by element, is found.
"""

from __future__ import annotations

MP_COMM = "mp_comm_recompute"
SLICE = "recompute_slice_activation"
EXCLUDES = {  # list -> the list of what is excluded from it
    "select_recompute": "select_recompute_exclude",
    "select_comm_recompute": "select_comm_recompute_exclude",
}
KEYS = frozenset({MP_COMM, SLICE, *EXCLUDES.values()})
