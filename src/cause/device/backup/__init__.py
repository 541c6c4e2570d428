"""Backups of a home, and how they are put back."""
