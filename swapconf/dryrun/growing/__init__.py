"""Traces of fewer layers -> one trace of the whole model: the training step, unrolled like a loop."""
