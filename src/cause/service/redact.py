"""Errors without their text, for logs and for those who may not know of whom it speaks: it may name somebody."""

import re
import traceback

from cause.errors import (
    BudgetError,
    Cancelled,
    CauseError,
    DamageError,
    HomeError,
    InputError,
    LearnerError,
    LogError,
    MeterError,
    PolicyError,
    RequestError,
    VaultError,
)

KINDS: tuple[tuple[type[CauseError], str], ...] = (
    (DamageError, "a stored sub-model is damaged"),
    (LearnerError, "the learner failed"),
    (BudgetError, "there is no room"),
    (VaultError, "keys cannot be read or written"),
    (HomeError, "the home cannot be used"),
    (PolicyError, "the replacement policy broke its contract"),
    (MeterError, "the energy meter cannot be read"),
    (Cancelled, "it was stopped"),
    (LogError, "a proof or a note of the log does not hold"),
    (RequestError, "a request cannot be served"),
    (InputError, "something does not fit the device"),
)
"""The narrower ones first."""
_WORKER = re.compile(r"training failed in a worker: ([A-Za-z_][A-Za-z0-9_]{0,60}):")


def kind_of(error: BaseException) -> str:
    """What kind of error it is.

    >>> from cause.errors import RequestError
    >>> kind_of(RequestError("unknown user 'alice'"))
    'a request cannot be served (RequestError)'
    >>> kind_of(LearnerError("training failed in a worker: MemoryError: of alice"))
    'the learner failed (MemoryError)'
    """
    for kind, told in KINDS:
        if isinstance(error, kind):
            inner = _WORKER.match(str(error))
            return f"{told} ({type(error).__name__ if inner is None else inner[1]})"
    return f"an unexpected error ({type(error).__name__})"


def where(error: BaseException | None) -> str:
    """Where it happened, and those before it that led to it: files, lines and kinds, but no text and no values."""
    told: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        told.append("".join(traceback.format_tb(error.__traceback__)) + type(error).__name__)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nafter\n".join(told)
