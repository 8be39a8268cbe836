"""NAME -> CLASS that can be imported, derived from and asked for its instances, of which there are none."""

from __future__ import annotations

from typing import Any


class NotInStandIn(NotImplementedError):
    """Something of hyper_parallel was used that the stand-in does not do."""


def absent(name: str) -> type:
    def refuse(_self: Any, *_arguments: Any, **_settings: Any) -> None:
        raise NotInStandIn(
            f"swapconf's stand-in for hyper_parallel has no {name}; install hyper_parallel to dry-run this"
        )

    return type(name, (), {"__init__": refuse, "__doc__": f"hyper_parallel's {name} is not in the stand-in."})
