"""CONFIG -> TRACE FILES: the real MindSpore in a child process that simulates the device; no card, no CANN."""

from __future__ import annotations

from swapconf.words.findings import SwapconfError


class DryRunError(SwapconfError, RuntimeError):
    """A dry run cannot be started or went wrong; the text says why and what to do."""
