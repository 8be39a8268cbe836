"""Traces of one stage -> the trace of a stage of the same role with other layers, micro-batches and place."""
