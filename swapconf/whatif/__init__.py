"""BASELINE + STRATEGY -> PREDICTION: what a strategy would do to a run without it."""
