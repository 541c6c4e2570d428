"""Sentences on what a command has changed, for the message of an error that comes later, while it prints its result."""

_effects: list[str] = []


def note_effect(text: str) -> None:
    """Remember what was changed, as a sentence for the error that may follow."""
    _effects.append(text)


def with_effects(message: str) -> str:
    """Return a message and what was changed before it.

    Examples
    --------
    >>> with_effects("cannot write the output: No space left on device")
    'cannot write the output: No space left on device'
    """
    return "; ".join([message, *_effects])


def take_effects() -> list[str]:
    """Return what was changed, and forget it: a process may run several commands."""
    taken = list(_effects)
    _effects.clear()
    return taken
