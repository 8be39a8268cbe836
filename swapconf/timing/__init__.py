"""TRACE + HARDWARE -> TIMELINE: what a step costs in time, on one rank or on several."""
