"""NAME -> another object of that name, in all modules of mindformers."""

from __future__ import annotations

import sys
from typing import Any


def replace_everywhere(name: str, old: Any, new: Any) -> None:
    """Also in modules that imported the name before."""
    for module in [m for key, m in sys.modules.items() if key.startswith("mindformers") and m is not None]:
        if vars(module).get(name) is old:
            setattr(module, name, new)
