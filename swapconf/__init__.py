"""swapconf: check, explain and apply activation swap and recompute for MindSpore Transformers."""

__version__ = "0.1.0"
