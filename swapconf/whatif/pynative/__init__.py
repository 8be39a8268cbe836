"""TRACE of a PyNative run without swap and recompute + DECISIONS -> MEMORY with them."""
