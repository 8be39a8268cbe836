"""HOW FAR A CHILD CAME -> how long it still takes, from the shares of time that earlier runs spent before each part."""

from __future__ import annotations

from swapconf.dryrun.came_to import Came, Station

# Of the whole time of a child what lies before each part begins. Measured with MindSpore 2.9.0 on one machine, the mean
# of three children: both stages of a Qwen3 (87 and 102 s) and the first of a DeepSeek-V3 (147 s), two stages each. They
# differ by up to 0.1. Before the steps it was 0.94 of these, and 0.7 of one stage of DeepSeek-V3 671B (138 s); 0.88 is
# the mean of the four.
_BEFORE = {
    "type_inference": 0.23,
    "inline": 0.38,
    "pipeline_split": 0.45,
    "optimize": 0.46,
    "validate": 0.82,
    "task_emit": 0.83,
    "execute": 0.88,
}
_STEP_1, _STEP_2, _END = 0.88, 0.94, 0.99


def left_seconds(came: Came, seconds: float, since: float) -> float | None:
    """``seconds``, ``since``: how long the child runs, and how long it is in this part. None where nothing is known."""
    share = _share(came)
    if share is None:
        return None
    return max((seconds - since) / share - seconds, 0.0)


def _share(came: Came) -> float | None:
    """Of the run's time what lies before the part."""
    if came.station is Station.ENDING:
        return _END
    if came.station is Station.RUNNING:
        return _STEP_1 if came.step == 1 else _STEP_2
    return _BEFORE.get(came.action)
