"""swapconf: check, explain and apply activation swap and recompute for MindSpore Transformers."""

from __future__ import annotations

__version__ = "0.1.0"


def install() -> None:
    """Take the place of mindformers' LayerSetting in this process, from now on; call it before a model is built.

    The same as ``python -m swapconf run``, for scripts that would rather import it.
    """
    from swapconf.train import session  # here, so that importing swapconf costs nothing

    session.install(session.source_of_process())
