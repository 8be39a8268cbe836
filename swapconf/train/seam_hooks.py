"""PATCHES -> HOOKS: each is applied once, as soon as its module of mindformers is there, if every seam is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import wrapt

AdvisorT = TypeVar("AdvisorT")


def register(
    patches: Iterable[tuple[str, Callable[[Any, AdvisorT], None]]], advisor: AdvisorT, complete: Callable[[], bool]
) -> None:
    """``patches``: (module, what is done to it). ``complete``: whether nothing is missing, asked when it is needed."""
    for module, patch in patches:
        wrapt.register_post_import_hook(_once(patch, advisor, complete), module)


def _once(
    patch: Callable[[Any, AdvisorT], None], advisor: AdvisorT, complete: Callable[[], bool]
) -> Callable[[Any], None]:
    def hook(module: Any) -> None:
        if not getattr(module, "_swapconf_seam", False) and complete():
            module._swapconf_seam = True
            patch(module, advisor)

    return hook
