"""Configs and traces, composed to variants: what each takes of memory and time, to be held side by side."""
