"""Pruning: whole filters are removed (RCMP, iterative), or single weights are masked (OMP, one-shot)."""
