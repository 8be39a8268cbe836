"""Tests with another program: Chromium, a language server, pip, pre-commit. Skipped where it is missing."""
