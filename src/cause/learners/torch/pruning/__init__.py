"""Smaller sub-models: filters removed for good (RCMP), or single weights masked (OMP)."""
