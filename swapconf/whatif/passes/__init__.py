"""FUNC GRAPH -> what one pass of MindSpore makes of it: a file for each pass that is mirrored, by its name.

`calls` runs those between the early graph and the last one, in MindSpore's order.
"""
