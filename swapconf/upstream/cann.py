"""Releases of CANN whose own code tells the workspace of kernels, the oldest first; each stands until the next."""

from __future__ import annotations

CANN_VERSIONS = ("8.5", "9.0")
