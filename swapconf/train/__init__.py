"""STUDY -> CELLS: one training process, which does what its study decides."""
