"""FOLDERS -> FINDINGS: many training YAMLs checked at once, under the settings and comments of their repository."""
