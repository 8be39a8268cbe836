"""swapconf.rehearsal.came_to: how far a child came, from what it leaves behind; and what is said of its log."""

from __future__ import annotations

import json
from pathlib import Path

from swapconf.dryrun.job import Folder
from swapconf.dryrun.outcome import Outcome
from swapconf.rehearsal.came_to import came_to, peak_bytes


def test_from_the_model_to_its_steps(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert came_to(folder) == "while the model was built"
    folder.flags.write_text("{}")
    assert came_to(folder) == "while the graph was compiled or in step 1"
    assert peak_bytes(folder) is None
    folder.result.write_text(json.dumps({"steps": 1, "max_memory_allocated_bytes": 1024}))
    assert (came_to(folder), peak_bytes(folder)) == ("in step 2", 1024)


def test_nonsense_in_the_files_of_a_child_tells_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.flags.write_text("{}")
    for content in ('{"steps": "2"}', '{"steps": -1, "max_memory_allocated_bytes": 5}', "[", '{"steps": 3}'):
        folder.result.write_text(content)
        assert peak_bytes(folder) is None


def test_where_the_log_is() -> None:
    assert Outcome.STOPPED.remedy("there/worker.log") == "correct the config; the whole log is there/worker.log"
    assert Outcome.CRASHED.remedy() == "try a smaller backward_prefetch; `--keep DIR` keeps the whole log"
