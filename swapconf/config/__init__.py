"""TEXT <-> CONFIG: training YAMLs in three dialects, read with places and written back."""
