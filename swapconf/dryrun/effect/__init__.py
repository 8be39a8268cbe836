"""TRACE -> EFFECT: what a dry run really moved and recomputed, against what was decided."""
