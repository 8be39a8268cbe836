"""What holds for every command: how it ends when it is interrupted or nobody reads, and what its streams can show."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from swapconf.cli.common import EXIT_UNREADABLE, neutral, say
from swapconf.words.phrases import phrase, show

EXIT_INTERRUPTED = 130  # as a shell reports an end by SIGINT
EXIT_NO_READER = 141  # and by SIGPIPE

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Ascii(io.TextIOWrapper):
    """Takes ASCII only, and does not say so: to a stream that says it, click writes UTF-8."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "iso8859-1"


def prepare_streams() -> None:
    """From here on nothing fails because the terminal, or the file behind a pipe, has no sign for a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):  # closed, or a test's
            continue
        stream.reconfigure(errors="backslashreplace")
        if stream.encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968", "646"):
            line_buffering = stream.line_buffering
            setattr(sys, name, _Ascii(stream.detach(), "ascii", "backslashreplace", line_buffering=line_buffering))


def colour(variables: Mapping[str, str]) -> bool | None:
    """For click, as rich does it by itself: False for none, None to let each stream decide."""
    return False if variables.get("NO_COLOR") or variables.get("TERM") == "dumb" else None


@contextmanager
def ended() -> Iterator[None]:
    """1 is for what was done and judged bad. What could not be done at all ends with 2, and without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        _interrupted()
    except click.Abort as abort:  # at a question
        if isinstance(abort.__context__, KeyboardInterrupt):
            _interrupted()
        raise click.UsageError(show(phrase("nobody answered the question, so nothing was changed"))) from None
    except click.ClickException as error:
        for name, value in (("message", neutral(error.message)), ("exit_code", EXIT_UNREADABLE)):
            object.__setattr__(error, name, value)  # click declares them final
        raise
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError) and not end.__suppress_context__:  # rich ends so
            _nobody_reads()
        raise
    except BrokenPipeError:
        _nobody_reads()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _to_nowhere()
        say(phrase("the output cannot be written ({reason})", reason=error.strerror), err=True)
        raise SystemExit(EXIT_UNREADABLE) from None


def _interrupted() -> None:
    click.echo(err=True)  # after the ^C of the terminal
    raise SystemExit(EXIT_INTERRUPTED) from None


def _nobody_reads() -> None:
    _to_nowhere()
    raise SystemExit(EXIT_NO_READER) from None


def _to_nowhere() -> None:
    """What is still in a buffer is written when Python ends, and must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
