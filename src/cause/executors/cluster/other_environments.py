"""Nodes whose environment is not the device's: what may be done with them, and how they differ.

An environment is a text: versions, processor and settings on which bits depend.
"""

REFUSE, WHOLE_SHARDS = "refuse", "whole-shards"
OTHER_ENVIRONMENTS = (REFUSE, WHOLE_SHARDS)
"""What is done with such nodes: they are not used, or they train whole shards."""


def difference(ours: str, theirs: str) -> str:
    """Return in what two environments differ.

    >>> difference("torch 2.6, cpu, 1 threads", "torch 2.5, cpu, 1 threads")
    'torch 2.5 there, torch 2.6 here'
    """
    mine, other = ours.split(", "), theirs.split(", ")
    there = ", ".join(part for part in other if part not in mine)
    here = ", ".join(part for part in mine if part not in other)
    return f"{there or 'nothing more'} there, {here or 'nothing more'} here"
