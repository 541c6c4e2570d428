"""The size of a memory in slots and in bytes, which is fixed when a device is made."""

from cause.common.units import format_bytes, parse_bytes
from cause.errors import BudgetError, InputError

ENDLESS = 2**62
"""The number of slots of a memory without limit."""


def sized(
    budget: str | int, slots: int | None, size: int, heads: int, *, bounded: bool = True, apart: bool = False
) -> tuple[int, int]:
    """Return the number of slots and of bytes of a memory.

    Parameters
    ----------
    budget
        The memory's size in bytes, or as text with a unit; not used if `slots` is given.
    slots
        The number of slots, or None to divide the budget.
    size
        The size of one sub-model in bytes.
    heads
        The number of shards, each of which needs one slot at least.
    bounded
        Whether the memory has a limit at all.
    apart
        Whether the heads have places beside the slots: the slots need not hold them, and the bytes of the heads are
        added.

    Raises
    ------
    BudgetError
        If there are fewer slots than shards.
    InputError
        If `slots` is below 1.

    Examples
    --------
    >>> sized("2GB", None, size=30 * 2**20, heads=4), sized("2GB", 8, size=100, heads=4)
    ((68, 2147483648), (8, 800))
    >>> sized("1MB", None, size=2**19, heads=4)
    Traceback (most recent call last):
    cause.errors.BudgetError: the memory holds 2 sub-models of 512.00 KB (1.00 MB), but the heads of 4 shards need ...
    """
    if slots is not None and slots < 1:
        raise InputError(f"the number of slots must be at least 1, not {slots}")
    budget_bytes = parse_bytes(budget) if slots is None else slots * size
    slots = budget_bytes // size if slots is None else slots
    if not bounded:
        slots, budget_bytes = ENDLESS, ENDLESS * size
    if apart and slots >= 1:
        return slots, budget_bytes + heads * size
    if slots < heads:
        raise BudgetError(
            f"the memory holds {slots} sub-models of {format_bytes(size)} ({format_bytes(budget_bytes)}), but "
            f"the heads of {heads} shards need {format_bytes(heads * size)}"
        )
    return slots, budget_bytes
