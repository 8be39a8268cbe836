"""GRAPH_BUILD_0_*.IR -> which attribute of its cell each node is a call of: ``to_heads`` of ``self.to_heads(x)``.

MindSpore names a node after its cell and its type, so that two products of one cell are told apart by a number alone.
Below the node it prints the source of the call, that of the innermost last::

    # Fullname with scope: (Default/.../layers-CellList/0-OwnBlock/mixer-TokenMixer/Transpose-op0)
    # In file .../own_model.py:114, 39~49/        states = self.residual(states, self.mixer(self.pre_mix(states)))/
    # In file .../own_model.py:67, 16~91/        query = self.to_heads(self.split_heads(...))/

Nodes that a pass has put in place of others have no source. (MindSpore 2.9.0)
"""

from __future__ import annotations

import re
from pathlib import Path

from swapconf.files.table_lines import Damage, lines

_START = re.compile(r" *(?:%\d+\(|Return\()")
_NAME = re.compile(r" +# Fullname with scope: \((.*)\)")
_SOURCE = re.compile(r" +# In file .*?:\d+(?:~\d+)?, (\d+)~\d+/(.*)/")
_CALL = re.compile(r"self\.(\w+(?:\.\w+)*)\(")


def called(path: str | Path) -> dict[str, str]:
    """By the name of a node. Raises SwapconfError where the file is no text."""
    found: dict[str, str] = {}
    name = ""
    for _, text in lines(path, Damage(path)):
        if _START.match(text):
            name = ""
        elif match := _NAME.fullmatch(text):
            name = match[1]
        elif name and (match := _SOURCE.fullmatch(text)):
            call = _CALL.match(match[2], int(match[1]))
            found.pop(name, None)  # the innermost one counts
            if call:
                found[name] = call[1]
    return found
