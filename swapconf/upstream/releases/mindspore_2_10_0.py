"""MindSpore 2.10.0."""

from __future__ import annotations

from swapconf.upstream.release import Release

RELEASE = Release(package="mindspore", version="2.10.0", confirms=("recomputed_consumer_voids_swap",))
