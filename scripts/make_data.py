#!/usr/bin/env python3
"""Write a tiny MindRecord file whose text is so regular that any language model learns it in a few steps.

Every sample counts upwards through the same few tokens, from a random start:  7 8 9 ... 32 1 2 3 ...
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

FIRST_TOKEN = 3  # 0, 1 and 2 are padding, begin and end of text in configs/
CYCLE_LENGTH = 32

COLUMNS = {
    # Llama and the other legacy models cut the labels out of one column themselves.
    "input_ids": {"input_ids": "int32"},
    # mcore models (Qwen3, DeepSeek-V3) are given all four.
    "mcore4": {"input_ids": "int32", "labels": "int32", "loss_mask": "float32", "position_ids": "int32"},
}


def make_row(start: int, seq_length: int, vocab_size: int, columns: str) -> dict[str, Any]:
    """One sample as ``{column: array}``; ``columns`` is a key of ``COLUMNS``."""
    cycle_length = min(CYCLE_LENGTH, vocab_size - FIRST_TOKEN)
    tokens = (FIRST_TOKEN + (start + np.arange(seq_length + 1)) % cycle_length).astype(np.int32)
    if columns == "input_ids":
        return {"input_ids": tokens}
    return {
        "input_ids": tokens[:-1],
        "labels": tokens[1:],
        "loss_mask": np.ones(seq_length, np.float32),
        "position_ids": np.arange(seq_length, dtype=np.int32),
    }


def write(out: Path, seq_length: int, samples: int, vocab_size: int, columns: str) -> None:
    """Write ``samples`` rows to the MindRecord file ``out``."""
    from mindspore.mindrecord import FileWriter  # here, so that --help needs no mindspore

    out.parent.mkdir(parents=True, exist_ok=True)
    writer = FileWriter(str(out), shard_num=1, overwrite=True)
    writer.add_schema({name: {"type": dtype, "shape": [-1]} for name, dtype in COLUMNS[columns].items()}, columns)
    starts = np.random.default_rng(seed=0).integers(0, CYCLE_LENGTH, size=samples)
    writer.write_raw_data([make_row(int(start), seq_length, vocab_size, columns) for start in starts])
    writer.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="file to write, for example data/small/train.mindrecord")
    parser.add_argument("--seq-length", type=int, required=True, metavar="N")
    parser.add_argument("--samples", type=int, required=True, metavar="N")
    parser.add_argument("--vocab-size", type=int, required=True, metavar="N")
    parser.add_argument("--columns", choices=sorted(COLUMNS), default="input_ids")
    args = parser.parse_args()
    for option, value, least in (
        ("--seq-length", args.seq_length, 1),
        ("--samples", args.samples, 1),
        ("--vocab-size", args.vocab_size, FIRST_TOKEN + 2),
    ):
        if value < least:
            parser.error(f"{option} is {value}, but must be at least {least}")
    write(args.out, args.seq_length, args.samples, args.vocab_size, args.columns)
    print(f"wrote {args.samples} samples of {args.seq_length} tokens to {args.out}")


if __name__ == "__main__":
    main()
