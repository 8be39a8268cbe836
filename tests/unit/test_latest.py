"""What is kept of the latest answers."""

from __future__ import annotations

from swapconf.whatif.latest import Latest


def test_what_was_looked_up_or_set_last_is_kept() -> None:
    found: Latest[str, int] = Latest(2)
    found["first"], found["second"] = 1, 2
    assert found["first"] == 1
    found["third"] = 3
    assert dict(found.items()) == {"first": 1, "third": 3}
    found["third"] = 4
    assert (found["first"], found["third"]) == (1, 4)
