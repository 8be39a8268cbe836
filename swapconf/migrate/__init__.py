"""YAML -> YAML in another dialect: what is carried over, what changes its meaning, and what has no counterpart."""
