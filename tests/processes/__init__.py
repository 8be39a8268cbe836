"""Tests that start processes: the command line as a person meets it, scripts, a C compiler."""
