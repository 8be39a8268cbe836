"""What-if on MindSpore's own graph: the one of the baseline, changed as a strategy changes it, decides the order."""
