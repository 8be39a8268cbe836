"""FOLDERS -> FINDINGS: many training YAMLs checked at once, repaired, and described to editors."""
