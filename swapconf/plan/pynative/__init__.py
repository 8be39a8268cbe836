"""TRACE of a PyNative run without swap and recompute -> PLAN of its layers under a budget."""
