"""TRACE -> MEMORY over time: by category, replayed and placed by allocators, and what fragments it."""
