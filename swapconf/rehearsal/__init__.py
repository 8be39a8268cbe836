"""Dry runs, composed: an order for a rank of a config becomes jobs, children, traces and one report."""
