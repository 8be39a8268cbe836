"""SIGNATURE -> WORKSPACE by CANN's tiling code: one module for each family of kernels.

Sources are named as REPOSITORY/PATH:LINE; lines are those of cann/ops-nn at e5c3fa932 (2026-08-22, CANN 9.2), of
cann/ops-transformer at c29bc10 (2025-11-15, CANN 8.5) and of cann/ops-math, where not said otherwise.
"""
