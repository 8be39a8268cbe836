"""ORDER -> REPORT of a large model from runs with fewer layers and micro-batches."""
