"""The messages between a device and its workers on other machines.

What a worker sends is read without pickle: a machine of the cluster that was taken over can send wrong sub-models, but
cannot run code on the device.
"""

import json
import struct
from dataclasses import dataclass
from enum import IntEnum

from cause import errors
from cause.engine.learner import Learner
from cause.errors import CauseError, LearnerError
from cause.executors.worker import Assignment, Epoch, Failed, Message, Ready, Trained


class Kind(IntEnum):
    """The kind of a message."""

    READY = 1
    """From the worker: it can train."""
    EPOCH = 2
    TRAINED = 3
    FAILED = 4
    RENEW = 5
    """From the worker: may I live on? The body is the number of the question."""
    GOODBYE = 6
    """From the worker: it ends now, as ordered."""
    ASSIGNMENT = 7
    """From the device: a pickled assignment."""
    RENEWED = 8
    """From the device: the answer to the question of that number."""
    END = 9
    """From the device: samples were forgotten, or there is no more work."""
    OTHER_ENVIRONMENT = 10
    """From the worker: here the training would give other bits, or the answer to a question. The body names the
    environment of this worker."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the device sends to a worker, pickled."""

    assignment: Assignment
    environment: str
    """The environment of the shard: a worker of another one does not train."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the device sends to a worker, pickled, to be told its environment for a learner."""

    learner: Learner


ERRORS: dict[str, type[CauseError]] = {
    kind.__name__: kind
    for kind in (
        errors.AbsentEnvironmentError,
        errors.ArrivalError,
        errors.BudgetError,
        errors.Cancelled,
        errors.CauseError,
        errors.ChangedError,
        errors.DamageError,
        errors.DivergedError,
        errors.EmptyRoundError,
        errors.FormatError,
        errors.HomeError,
        errors.InputError,
        errors.LearnerError,
        errors.LogError,
        errors.MeterError,
        errors.NoGuardError,
        errors.NoVotersError,
        errors.PassingError,
        errors.PolicyError,
        errors.ReadError,
        errors.RequestError,
        errors.VaultError,
    )
}
"""The errors of a worker that arrive as themselves: those that are made of one text."""
_EPOCH = struct.Struct(">QQ")
NUMBER = struct.Struct(">Q")


def encode(message: Message) -> tuple[Kind, bytes]:
    """Return the kind and the body of what a worker sends."""
    if isinstance(message, Ready):
        return Kind.READY, b""
    if isinstance(message, Epoch):
        return Kind.EPOCH, _EPOCH.pack(message.done, message.total)
    if isinstance(message, Trained):
        return Kind.TRAINED, message.blob
    return Kind.FAILED, json.dumps({"kind": type(message.error).__name__, "text": str(message.error)}).encode()


def decode(kind: int, body: bytes | bytearray) -> Message:
    """Return what a worker sent; a `ValueError` if it is no message of a worker.

    >>> decode(*encode(Epoch(1, 3)))
    Epoch(done=1, total=3)
    """
    if kind == Kind.READY:
        return Ready()
    if kind == Kind.EPOCH and len(body) == _EPOCH.size:
        return Epoch(*_EPOCH.unpack(body))
    if kind == Kind.TRAINED:
        return Trained(bytes(body))
    if kind == Kind.FAILED:
        said = json.loads(bytes(body))
        error = ERRORS.get(str(said["kind"]), LearnerError)  # any other arrives as this one
        return Failed(error(str(said["text"])))
    raise ValueError(f"a message of kind {kind} with {len(body)} bytes")
