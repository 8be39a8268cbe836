"""Which strategy is best: keep, swap or recompute for every layer and operator, under a budget of memory."""
