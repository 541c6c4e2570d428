"""Messages for errors that come after something was recorded: the caller must not repeat the call."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from cause.errors import CauseError

NAMED = 8
"""Ids of requests that a message names."""


@contextmanager
def saying(what: str | Callable[[], str]) -> Iterator[None]:
    """Add a sentence on what was recorded to any error that the block raises.

    A CauseError gets it in its text and as `recorded`; any other error as a note and as `recorded`.

    Parameters
    ----------
    what
        The sentence, or a function that returns it once an error comes; an empty one adds nothing.

    Examples
    --------
    >>> from cause.errors import LearnerError
    >>> with saying("round 3 is recorded: `cause repair` trains it"):
    ...     raise LearnerError("training diverged")
    Traceback (most recent call last):
    cause.errors.LearnerError: training diverged; round 3 is recorded: `cause repair` trains it
    >>> try:
    ...     with saying("round 3 is recorded"):
    ...         raise ValueError("of a user's learner")
    ... except ValueError as error:
    ...     print(error.recorded)
    round 3 is recorded
    """
    try:
        yield
    except BaseException as error:
        sentence = what if isinstance(what, str) else what()
        if sentence and isinstance(error, CauseError):
            error.args = (f"{error}; {sentence}",)
            error.recorded = sentence if error.recorded is None else f"{error.recorded}; {sentence}"
        elif sentence and sentence not in getattr(error, "__notes__", ()):
            error.add_note(sentence)
            with suppress(AttributeError):  # of a class with slots
                error.recorded = sentence  # type: ignore[attr-defined]
        raise


def round_recorded(round_: int, samples: int) -> str:
    """The sentence for an error of `learn` or `close_round` after the round was recorded."""
    return (
        f"round {round_} is recorded with its {samples:,} samples and waits to be trained: do not learn it again, "
        "`cause repair` (or `repair()`) goes on with it"
    )


def requests_recorded(ids: Sequence[str], in_effect: Sequence[str]) -> str:
    """The sentence for an error of `forget` after requests were accepted, and some of them took effect.

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
