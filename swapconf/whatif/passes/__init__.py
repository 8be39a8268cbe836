"""FUNC GRAPH -> what one pass of MindSpore makes of it: a file for each pass that is mirrored, by its name."""
