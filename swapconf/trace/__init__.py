"""TRACE FILES -> COLUMNS: what one dry run left behind: blocks, kernels, tasks, phases."""
