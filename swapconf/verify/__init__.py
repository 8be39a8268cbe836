"""LOGS + STUDY -> VERIFICATION: whether every rank of a run did what its config decides, composed from the arrows."""
