"""Messages for errors that come after something was recorded: the caller must not repeat the call."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cause.errors import LearnerError

NAMED = 8
"""Ids of requests that a message names."""
COMMIT_FAILED = (
    "it may have been recorded all the same: open the home again and look (`cause status`, `cause samples`) before you "
    "repeat the call, or repeat it with its idempotency key"
)
"""The sentence for an error in a commit, which may have reached the disk."""


@contextmanager
def add_to_errors(what: str | Callable[[], str]) -> Iterator[None]:
    """Add a sentence on what was recorded to any error that the block raises.

    Every `Exception` gets it in its text and as `recorded`, whatever its type; one whose text cannot be changed is
    raised as the cause of a `LearnerError` that has it. What ends a program (KeyboardInterrupt, SystemExit) gets it as
    a note and as `recorded`.

    Parameters
    ----------
    what
        The sentence, or a function that returns it once an error comes; an empty one adds nothing.

    Examples
    --------
    >>> from cause.errors import LearnerError
    >>> with add_to_errors("round 3 is recorded: `cause repair` trains it"):
    ...     raise LearnerError("training diverged")
    Traceback (most recent call last):
    cause.errors.LearnerError: training diverged; round 3 is recorded: `cause repair` trains it
    >>> try:
    ...     with add_to_errors("round 3 is recorded"):
    ...         raise ValueError("a label")
    ... except ValueError as error:
    ...     print(error)
    a label; round 3 is recorded
    """
    try:
        yield
    except BaseException as error:
        sentence = what if isinstance(what, str) else what()
        if not sentence or sentence in str(error) or sentence in getattr(error, "__notes__", ()):
            raise
        earlier = getattr(error, "recorded", None)
        recorded = sentence if earlier is None else f"{earlier}; {sentence}"
        if isinstance(error, Exception) and not _add(error, sentence):
            text = (str(error).splitlines() or [""])[0]
            wrapped = LearnerError(f"{type(error).__name__}: {text}; {sentence}")
            wrapped.recorded = recorded
            raise wrapped from error
        if not isinstance(error, Exception):
            error.add_note(sentence)
        with suppress(AttributeError):  # of a class with slots
            error.recorded = recorded  # type: ignore[attr-defined]
        raise


def _add(error: Exception, sentence: str) -> bool:
    """Add a sentence to the text of an error; return whether its text has it now."""
    before = error.args
    text = str(error)
    if isinstance(error, OSError) and error.strerror is not None:  # its text is not made of the arguments
        error.strerror = f"{error.strerror}; {sentence}"
    else:
        error.args = (f"{text}; {sentence}" if text else f"{type(error).__name__}; {sentence}",)
    if sentence in str(error):
        return True
    error.args = before
    return False


def round_recorded(round_: int, samples: int) -> str:
    """Return the sentence for an error of `learn` or `close_round` after the round was recorded."""
    return (
        f"round {round_} is recorded with its {samples:,} samples and waits to be trained: do not learn it again, "
        "`cause repair` (or `repair()`) goes on with it"
    )


def uploads_staged(ids: Sequence[str]) -> str:
    """Return the sentence for an error of `stage` of an additive device after the uploads were staged."""
    return (
        f"the samples are stored (call {_listed(ids)}): do not send them again, the next `repair()` or `stage`, or "
        "the next opening of the home, learns them"
    )


def requests_recorded(ids: Sequence[str], in_effect: Sequence[str]) -> str:
    """Return the sentence for an error of `forget` after requests were accepted, and some of them took effect.

    >>> requests_recorded(["a1", "b2"], ["a1"])[:60]
    'in effect, so that the samples are destroyed: request a1; do'
    """
    accepted = [id_ for id_ in ids if id_ not in set(in_effect)]
    parts = []
    if in_effect:
        parts.append(
            f"in effect, so that the samples are destroyed: request {_listed(in_effect)}; do not ask again, "
            "`cause repair` (or `repair()`) retrains what is left"
        )
    if accepted:
        parts.append(
            f"accepted and not in effect yet: request {_listed(accepted)}; do not ask again, it is served when the "
            "device is next opened for writing or called (`cause repair`, `repair()`)"
        )
    return "; ".join(parts)


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
