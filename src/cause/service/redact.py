"""Error messages without user ids, for logs and for clients that may not see other users' ids."""

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
"""Message by error type. Subclasses stand before their base classes: the first match is used."""
_WORKER = re.compile(r"training failed in a worker: ([A-Za-z_][A-Za-z0-9_]{0,60}):")


def redacted_message(error: BaseException) -> str:
    """Return what kind of error it is, without the error's own text, which may contain user ids.

    >>> from cause.errors import RequestError
    >>> redacted_message(RequestError("unknown user 'alice'"))
    'a request cannot be served (RequestError)'
    >>> redacted_message(LearnerError("training failed in a worker: MemoryError: of alice"))
    'the learner failed (MemoryError)'
    """
    for type_, message in KINDS:
        if isinstance(error, type_):
            in_worker = _WORKER.match(str(error))
            return f"{message} ({type(error).__name__ if in_worker is None else in_worker[1]})"
    return f"an unexpected error ({type(error).__name__})"


def redacted_traceback(error: BaseException | None) -> str:
    """Return the traceback of an error and of its causes: files, lines and types, without messages and values."""
    parts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        parts.append("".join(traceback.format_tb(error.__traceback__)) + type(error).__name__)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nafter\n".join(parts)
