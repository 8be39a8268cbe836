"""SEED -> INPUT: inputs of a fuzz target, made from real files by changes that keep most of their structure.

``input_of(target, seed, number)`` is always the same bytes, so a finding is told by three words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

HERE = Path(__file__).parent
SEEDS, REGRESSIONS = HERE / "seeds", HERE / "regressions"
REPOSITORY = HERE.parents[1]
MAX_BYTES = 1 << 15

NASTY = [
    token.encode("utf-8", "surrogateescape")
    for token in (
        "",
        "0",
        "-1",
        "1",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "9" * 40,
        "1" * 400,
        "1e309",
        "-1e309",
        "1e5",
        "NaN",
        "Infinity",
        "-Infinity",
        "0x7fffffff",
        "0xffffffffffffffff",
        "١٢",
        "1_000",
        "010",
        "1:30",
        "true",
        "null",
        "~",
        "None",
        "N/A",
        "''",
        '""',
        '"',
        "'",
        "`",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "{}",
        "[]",
        "[[]]",
        "[[[[[[[[",
        ",",
        ",,",
        ";",
        ":",
        ": ",
        "- ",
        "? ",
        "&a ",
        "*a",
        "<<: *a",
        "!!python/object:os.system ",
        "!!binary ",
        "!!set ",
        "!!int ",
        "!!timestamp ",
        "| ",
        "> ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "# ",
        "\t",
        "\r",
        "\r\n",
        "\n",
        "\n\n",
        "\0",
        "\x1b[31m",
        "\x1b]0;x\x07",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"),
        "\udcff",
        "\udcc3",
        "é",
        "漢",
        "=cmd|' /C calc'!A0",
        "+1",
        "@SUM(1)",
        "<script>",
        "</script>",
        "&lt;",
        "{{7*7}}",
        "../../etc/passwd",
        "/dev/zero",
        "a" * 300,
        "%s%n",
        "\\",
        "\\.",
        "$(id)",
        "layers.99999999999.x",
        "/layers-CellList/4294967296-X/",
        "rank_99999999999",
        "(.*)*$",
        "(a|a)+",
        "a{1000}",
        "[[",
        "(?R)",
        "(?P<a>",
        "\\p{",
        "{e<=9}",
        "(?<=a+)",
        "True",
        "Auto",
        "MoveTo",
        "StreamSend",
        "AllReduce",
    )
]
KEYS = [
    key.encode()
    for key in (
        "swap",
        "swap_config",
        "recompute_config",
        "layer_swap",
        "op_swap",
        "layers",
        "backward_prefetch",
        "op_name",
        "offset",
        "default_prefetch",
        "recompute",
        "select_recompute",
        "select_comm_recompute",
        "select_recompute_exclude",
        "num_layers",
        "pp_interleave_num",
        "pipeline_stage",
        "model",
        "model_config",
        "type",
        "micro_batch_num",
        "use_parallel",
        "context",
        "max_device_memory",
        "data_parallel",
        "file",
        "rank",
        "figures",
        "value",
        "source",
        "report",
        "findings",
        "args",
    )
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    7,
    2**31,
    2**63,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "0",
    "True",
    "\x1b[2J",
    "\ud800",
    "1e999",
    [],
    {},
    [[]],
    [0],
    [0, [1]],
    {"a": 1},
    [None],
    ["(a|a)+$"],
]
_LIKE = {"large_yaml": "yaml"}  # the seeds of another target
_WORD = re.compile(rb"[\w.+-]+")
_SEPARATED = re.compile(rb"[,;]")


@cache
def seeds(target: str) -> tuple[bytes, ...]:
    """Whole real files or their heads, and what was found before."""
    places = [*(SEEDS / _LIKE.get(target, target)).glob("*"), *(REGRESSIONS / target).glob("*")]
    if target in ("yaml", "large_yaml"):
        places += (REPOSITORY / "tests" / "examples").glob("*.yaml")
    return tuple(path.read_bytes()[:MAX_BYTES] for path in sorted(places))


def input_of(target: str, seed: int, number: int) -> bytes:
    random = Random(f"{seed}/{target}/{number}")
    known = seeds(target)
    data = random.choice(known)
    if random.random() < 0.3 and (changed := _in_its_tree(data, random)) is not None:
        return changed[:MAX_BYTES]
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4, 8))):
        data = random.choice(CHANGES)(data, random, known)
    return data[:MAX_BYTES]


def grown(data: bytes, size: int) -> bytes:
    """An input of nearly ``size`` bytes: one of its lines again and again. Which line, and whether its first word is a
    new one each time, so that keys and patterns differ, follows from the data."""
    lines = data.splitlines(keepends=True)
    lot = crc32(data)
    if not lines or len(data) >= size:
        return data
    at = lot % len(lines)
    times = (size - len(data)) // (len(lines[at]) + 6)
    if not lot & 1 << 20:
        return b"".join([*lines[:at], *[lines[at]] * times, *lines[at:]])
    word = re.search(rb"[A-Za-z_]+", lines[at])
    end = word.end() if word else 0
    new = [b"%b%d%b" % (lines[at][:end], number, lines[at][end:]) if word else lines[at] for number in range(times)]
    return b"".join([*lines[:at], *new, *lines[at:]])


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 1, 2, 4, 16, 64, 256)))


def _flip(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _delete(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    start, stop = _span(data, random)
    return data[:start] + data[stop:]


def _repeat(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    start, stop = _span(data, random)
    return data[:stop] + data[start:stop] * random.choice((1, 2, 50, 500)) + data[stop:]


def _insert(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(random.choice((NASTY, NASTY, KEYS))) + data[at:]


def _word(data: bytes, random: Random, known: tuple[bytes, ...]) -> bytes:
    """One word becomes a nasty one, or another of the same files."""
    words = list(_WORD.finditer(data))
    if not words:
        return data
    match, new = random.choice(words), random.choice(random.choice((NASTY, NASTY, KEYS)))
    if random.random() < 0.4:
        others = _WORD.findall(random.choice(known))
        new = random.choice(others) if others else new
    everywhere = random.random() < 0.2
    return data.replace(match[0], new) if everywhere else data[: match.start()] + new + data[match.end() :]


def _lines(data: bytes, random: Random, known: tuple[bytes, ...]) -> bytes:
    """A line is lost, said twice, moved, or one of another file."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, to = random.randrange(len(lines)), random.randrange(len(lines))
    other = random.choice(known).splitlines(keepends=True) or [b"\n"]
    return b"".join(
        random.choice(
            (
                lambda: lines[:at] + lines[at + 1 :],
                lambda: [*lines[:at], lines[at], *lines[at:]],
                lambda: [*lines[:at], lines[to], *lines[at + 1 :]],
                lambda: [*lines[:at], random.choice(other), *lines[at:]],
                lambda: [*lines[:at], random.choice((b" ", b"  ", b"\t")) + lines[at], *lines[at + 1 :]],
            )
        )()
    )


def _cell(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    """One value of a table."""
    lines = data.split(b"\n")
    row = random.randrange(len(lines))
    cells = _SEPARATED.split(lines[row])
    cells[random.randrange(len(cells))] = random.choice(NASTY)
    return b"\n".join([*lines[:row], b",".join(cells), *lines[row + 1 :]])


def _cut(data: bytes, random: Random, _known: tuple[bytes, ...]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _splice(data: bytes, random: Random, known: tuple[bytes, ...]) -> bytes:
    other = random.choice(known)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


Change = Callable[[bytes, Random, tuple[bytes, ...]], bytes]
CHANGES: tuple[Change, ...] = (
    _flip,
    _delete,
    _repeat,
    _insert,
    _insert,
    _word,
    _word,
    _word,
    _lines,
    _lines,
    _cell,
    _cell,
    _cut,
    _splice,
)


def _in_its_tree(data: bytes, random: Random) -> bytes | None:
    """A value of a JSON file becomes another; None for other files."""
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return None
    for _ in range(random.choice((1, 1, 2, 3))):
        holder, key = random.choice(list(_places(root)))
        if isinstance(holder, dict) and random.random() < 0.2:
            del holder[key]
        else:
            holder[key] = deepcopy(random.choice(VALUES))
        if not root:
            break
    return json.dumps(root[0]).encode("utf-8", "surrogatepass")


def _places(node: Any) -> Any:
    for key, value in enumerate(node) if isinstance(node, list) else node.items():
        yield node, key
        if isinstance(value, list | dict):
            yield from _places(value)
