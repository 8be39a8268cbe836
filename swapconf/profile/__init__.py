"""The profiler's own files, read from a card and written for a simulated step."""
