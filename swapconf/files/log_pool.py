"""STREAMS -> what is read of each, in order; by processes where there is much to read, and joblib is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from swapconf.files.log_folder import Stream

POOL_FROM_BYTES = 2**29  # of logs; for less, starting processes costs more than it gives
MOST_JOBS = 3  # unless asked for more: each takes about 60 MB

T = TypeVar("T")


def read_all(streams: Sequence[Stream], read: Callable[[Stream], T], jobs: int) -> Iterator[T]:
    """``read``: of one stream; a function that another process finds by its name."""
    size = sum(size_of(path) for stream in streams for path in stream.paths)
    if jobs > 1 and len(streams) > 1 and size >= POOL_FROM_BYTES:
        try:
            import joblib
        except ImportError:
            pass
        else:
            with joblib.parallel_config(backend="loky", n_jobs=min(jobs, len(streams)), inner_max_num_threads=1):
                yield from joblib.Parallel(return_as="generator")(joblib.delayed(read)(stream) for stream in streams)
            return
    yield from map(read, streams)


def size_of(path: Path) -> int:
    """In bytes; 0 of what cannot be asked."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
