"""TRACE + STRATEGY -> SIMULATION: memory over time, replayed or predicted."""
