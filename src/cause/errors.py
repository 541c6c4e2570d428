"""What can go wrong, in one line a user can act on. The command line prints that line and exits with 2."""

from collections.abc import Sequence


def _with_advice(reason: object, advice: str) -> str:
    return f"{reason}: {advice}" if advice else str(reason)


class CauseError(Exception):
    """Anything CAUSE refuses."""

    recorded: str | None = None
    """What had been recorded before it, and what to do now; None if nothing was."""


class InputError(CauseError):
    """A value from outside that does not make sense. Nothing was changed."""


class RequestError(InputError):
    """A request that cannot be served: an unknown user or round, more than there is, or nothing at all."""


class EmptyRoundError(InputError):
    """A round that nothing arrived for. It would count, and `retain = "N rounds"` deletes by the number of rounds."""


class ArrivalError(InputError):
    """An upload that does not fit the device. The message names its user, the row and the value."""


class BudgetError(CauseError):
    """A memory that cannot hold what it must."""


class NoVotersError(CauseError):
    """A prediction while no shard has a sub-model that votes: nothing was learned, or all waits for its repair."""


class LearnerError(CauseError):
    """A learner failed to train, store or predict. `Cause.repair` finishes a call that this interrupted."""


class DivergedError(LearnerError):
    """Training that left weights which are not finite."""


class PassingError(LearnerError):
    """Training that failed for a reason outside its samples: a worker was killed, there was no memory.

    It may succeed when it is tried again.
    """


class AbsentEnvironmentError(PassingError):
    """A shard that no worker can train: the shard's sub-models are of another environment than any worker's."""


class NoGuardError(InputError, PassingError):
    """A script that defines the learner and does its work without asking whether it is the main program."""


IN_WORKER = "training failed in a worker: "
"""How the message of an error begins that a learner raised in a worker process; its type follows."""


def is_passing(error: BaseException) -> bool:
    """Whether training may succeed when it is tried again on the same samples: its error has to do with the machine.

    >>> is_passing(MemoryError()), is_passing(RuntimeError("CUDA out of memory")), is_passing(ValueError("a label"))
    (True, True, False)
    """
    if isinstance(error, MemoryError | OSError | PassingError | DamageError | Cancelled | ChangedError | BudgetError):
        return True
    if isinstance(error, HomeError | VaultError) or "OutOfMemory" in type(error).__name__:
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "allocate memory" in message)


def error_name(error: BaseException) -> str:
    """The type of an error, of one in a worker process that of the first; nothing of its text, which may name a user.

    >>> error_name(ValueError("alice")), error_name(LearnerError("training failed in a worker: KeyError: 'alice'"))
    ('ValueError', 'KeyError')
    """
    if isinstance(error, LearnerError) and str(error).startswith(IN_WORKER):
        name = str(error).removeprefix(IN_WORKER).partition(":")[0]
        if name.isidentifier() and len(name) <= 60:
            return name
    return type(error).__name__


class PolicyError(CauseError):
    """A replacement policy that broke its contract: it named a pinned or an empty slot."""


class MeterError(CauseError):
    """An energy meter that is not there or cannot be read. Energy is then unknown, not 0."""


class LogError(InputError):
    """A proof, a signed note or a checkpoint that does not hold, or that cannot be made.

    Parameters
    ----------
    reason
        What is wrong.
    advice
        What to do about it.
    """

    def __init__(self, reason: object = "", advice: str = "") -> None:
        super().__init__(_with_advice(reason, advice))
        self.reason = str(reason)
        """What is wrong, without the advice."""


class VaultError(CauseError):
    """Keys that cannot be read or written: a wrong wrapping key, a damaged or foreign file, a disk that fails."""


class TraceError(InputError):
    """Everything that is wrong with a trace.

    >>> print(TraceError("t.jsonl", [(1, "not JSON"), (3, "unknown user 'u9'")]))
    t.jsonl:1: not JSON
    t.jsonl:3: unknown user 'u9'
    """

    def __init__(self, source: str, problems: Sequence[tuple[int, str]]) -> None:
        self.source = source
        self.problems = list(problems)
        super().__init__("\n".join(f"{source}:{line}: {message}" for line, message in self.problems))


class HomeError(CauseError):
    """A home that cannot be opened or used: locked, foreign, of another format, damaged, out of room.

    Parameters
    ----------
    reason
        What is wrong.
    advice
        What to do about it.
    """

    def __init__(self, reason: object = "", advice: str = "") -> None:
        super().__init__(_with_advice(reason, advice))
        self.reason = str(reason)
        """What is wrong, without the advice."""


class FormatError(HomeError):
    """A home of another format than the program's: an older one that has to be upgraded, or a newer one."""


class ReadError(HomeError):
    """A file that is there and cannot be read now: an error of the disk or of the system, not damage.

    Nothing is dropped for it.
    """


class DamageError(LearnerError):
    """A stored sub-model that cannot be read or is not what was stored: it is dropped, and replay makes it again."""


class Cancelled(CauseError):
    """Training that was stopped: its data was forgotten meanwhile, or the caller stopped it."""


class ChangedError(CauseError):
    """Data changed while it was read: some of it was forgotten, or turned out to be damaged."""
