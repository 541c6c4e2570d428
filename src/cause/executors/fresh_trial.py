"""The trial of a learner in two fresh processes, which finds state wherever a user's code hides it.

One process trains a lesson first of all, the other one trains it after another lesson. If the sub-models or their
answers differ, the code keeps something between trainings or takes something from outside. Torch has to be imported in
both, which takes seconds, so only learners with a user's own code are tried in this way.
"""

import hashlib
import multiprocessing
import pickle
import signal
import warnings
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess

from cause.common.zeroize import overwrite_freed_memory
from cause.engine.learner import Learner
from cause.errors import LearnerError
from cause.executors.spawning import ScriptlessContext
from cause.learners.trial import digest_after_other_lessons, shape_of, try_out

ORDERS = ((), (1,))
"""The lessons that each process trains before the one that is compared."""
_passed: set[bytes] = set()  # digests of learners that passed in this process


def try_out_afresh(learner: Learner) -> None:
    """Try a learner out in this process, and if it holds a user's own code, in two fresh ones too.

    A learner that cannot be sent to a process (a lambda, a local class, a function of the script that is running) is
    tried in this process alone.

    Parameters
    ----------
    learner
        The learner, composed with its system.

    Raises
    ------
    LearnerError
        If the learner fails, or a training depends on an earlier one or on the process.
    """
    try_out(learner)
    shape = shape_of(learner)
    if learner.users_code is None or shape is None or multiprocessing.current_process().daemon:
        return
    learner.environment  # noqa: B018 - what it finds out about the network, as what can be pruned, is sent along
    try:
        sent = pickle.dumps(learner)
    except Exception:  # pickle raises what it likes
        return
    name = hashlib.sha256(sent).digest()
    if b"__main__" in sent or name in _passed:
        return
    results = _results(sent, shape)
    failures = [result for result in results if isinstance(result, str)]
    if failures:
        warnings.warn(f"the learner could not be tried in a fresh process: {failures[0]}", stacklevel=2)
        return
    if results[0] != results[1]:
        raise LearnerError(
            "in two fresh processes the same samples and seed gave other weights or answers, before and after another "
            "training: the network's code keeps something between trainings or predictions (a closure, a cache, an "
            "attribute of another module), or takes something from outside (the clock, a file, hash()); keep it in the "
            "network, and draw from the global generators, which are seeded"
        )
    _passed.add(name)


def _results(sent: bytes, shape: tuple[int, ...]) -> list[bytes | str]:
    """Return the result of each process: a digest, or why there is none."""
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for earlier in ORDERS:
            started.append(_started(ScriptlessContext(), sent, shape, earlier))
        return [_received(process, pipe) for process, pipe in started]
    except OSError as error:
        return [f"cannot start one: {error.strerror or error}"]
    finally:
        for process, pipe in started:
            process.kill()
            process.join()
            pipe.close()


def _started(
    context: SpawnContext, sent: bytes, shape: tuple[int, ...], earlier: tuple[int, ...]
) -> tuple[BaseProcess, Connection]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, sent, shape, earlier), daemon=True)
    resource_tracker.ensure_running()  # before the signal mask is set: its start would reset the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C reaches this process alone
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return process, ours


def _received(process: BaseProcess, pipe: Connection) -> bytes | str:
    try:
        answer: bytes | str = pipe.recv()
    except (EOFError, OSError):
        process.join()
        return f"it ended with exit code {process.exitcode}"
    return answer


def _run(pipe: Connection, sent: bytes, shape: tuple[int, ...], earlier: tuple[int, ...]) -> None:
    """Send, from a fresh process, the digest of lesson 0 after the earlier lessons, or the error."""
    overwrite_freed_memory()
    try:
        learner: Learner = pickle.loads(sent)  # noqa: S301 - of the process that started this one
        answer: bytes | str = digest_after_other_lessons(learner, shape, earlier)
    except Exception as error:  # a user's network may raise anything
        answer = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    pipe.send(answer)
