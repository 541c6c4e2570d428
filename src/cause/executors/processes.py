"""Trains shards in worker processes of this machine."""

import multiprocessing
import signal
import warnings
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext

from cause.common.gpu_sharing import turns_note
from cause.engine.executor import MOST_WORKERS
from cause.engine.learner import Learner
from cause.errors import InputError
from cause.executors.pool import Worker, WorkerPool
from cause.executors.spawning import ScriptlessContext, context_for, needs_guard
from cause.executors.worker import work


class Processes(WorkerPool):
    """Trains shards in worker processes of this machine, which stay warm between calls (see `WorkerPool`).

    Parameters
    ----------
    workers
        The number of processes, from 1 to 256.

    Raises
    ------
    InputError
        If the number of workers is out of range.
    """

    def __init__(self, workers: int) -> None:
        if not 1 <= workers <= MOST_WORKERS:
            raise InputError(f"the number of workers must be from 1 to {MOST_WORKERS}, not {workers}")
        super().__init__(workers)
        self._context: SpawnContext = ScriptlessContext()
        self._sharing_noted = False  # whether the user was warned that workers take turns on a GPU

    def _start(self) -> Worker:
        """Start a worker process; an `InputError` if the system refuses it."""
        try:
            return _spawn(self._context)
        except OSError as error:
            raise InputError(
                f"cannot start a worker process: {error.strerror}: take fewer workers, or allow more"
            ) from None

    def _prepare(self, learner: Learner, shards: int) -> None:
        self._choose_context(learner)
        self._note_sharing(learner, min(self.workers, shards))

    def _choose_context(self, learner: Learner) -> None:
        """Let new workers import the caller's script only if it defines the learner; end idle workers that differ."""
        context = context_for(learner)
        if type(context) is not type(self._context):
            with self._lock:
                idle, self._idle, self._context = self._idle, [], context
            for worker in idle:
                worker.end()
                worker.close()

    def _note_sharing(self, learner: Learner, workers: int) -> None:
        """Warn once if several workers take turns on a GPU."""
        note = None if self._sharing_noted else turns_note(learner.device_type, workers)
        if note:
            self._sharing_noted = True
            warnings.warn(note, stacklevel=2)

    def _refused(self, worker: Worker) -> Exception | None:
        script_failed = not worker.ready and worker.process.exitcode == 1
        return needs_guard() if script_failed and not isinstance(self._context, ScriptlessContext) else None


def _spawn(context: SpawnContext) -> Worker:
    ours, theirs = multiprocessing.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    resource_tracker.ensure_running()  # before the signal mask is set: its start would reset the mask
    # a worker inherits the mask: Ctrl-C reaches the caller alone, which then ends the workers
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return Worker(process, ours)
