"""Arguments of the Python interface: converted if their meaning is clear, refused with one line if it is not."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.common.registry import nearest
from cause.engine.presets import System
from cause.engine.requests import Request
from cause.engine.samples import Upload
from cause.errors import InputError, RequestError

_METHODS = ("composed", "check", "train", "predict", "encode", "decode", "stored_bytes")
"""The methods that every learner must have."""

REPAIRS = ("now", "later")
"""When a call retrains: before it returns, or with the next repair."""
DEVICE_ARGUMENTS = (
    "home", "learner", "system", "shards", "memory", "slots", "classes", "seed", "key", "read_only", "ledger", "shelf",
    "journal", "workers", "executor", "watch", "storage", "retain", "repair", "deadline_days",
    "input_shape", "input_dtype",
)  # fmt: skip
"""The arguments of `Cause`; `storage`, `retain`, `repair` and `deadline_days` need a home."""


def check_device(home: Any, learner: Any, system: Any) -> None:
    """Raise an `InputError` unless these are a folder, a learner and a system, or None."""
    if home is not None and not isinstance(home, str | PathLike):
        raise InputError(f"a home is the path of a folder, not {_kind(home)}: learner=… names the learner")
    if system is not None and not isinstance(system, str | System):
        raise InputError(f"a system is a preset's name or a cause.System, not {_kind(system)}")
    if learner is not None:
        check_learner(learner)


def array_of(what: str, value: Any, *, copy: bool = False) -> NDArray[Any]:
    """Return a value as an array; with `copy` always as a new one.

    Parameters
    ----------
    what
        What it is, for messages.
    value
        Anything that numpy makes an array of.
    copy
        Whether to copy an array.

    Raises
    ------
    InputError
        If it cannot be made one array, or some of its values are masked.

    Examples
    --------
    >>> array_of("inputs", [[1, 2], [3]])
    Traceback (most recent call last):
    cause.errors.InputError: inputs must all have the same shape: they cannot be made one array
    """
    refuse_masked(what, value)
    try:
        return np.array(value) if copy else np.asarray(value)
    except ValueError:
        raise InputError(f"{what} must all have the same shape: they cannot be made one array") from None
    except (TypeError, RuntimeError) as error:  # a tensor on a GPU, one that requires a gradient …
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{what} cannot be made an array: {first}") from None


def refuse_masked(what: str, value: Any) -> None:
    """Raise an `InputError` for masked values in an array or a list of arrays: numpy would take what is under the mask.

    >>> refuse_masked("inputs", np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    Traceback (most recent call last):
    cause.errors.InputError: inputs have 1 masked values: fill them, as with x.filled(0), or leave those rows out
    """
    parts = value if isinstance(value, list | tuple) else [value]
    masked = sum(int(np.count_nonzero(part.mask)) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        raise InputError(
            f"{what} have {masked:,} masked values: fill them, as with x.filled(0), or leave those rows out"
        )


def inputs_of(x: Any) -> Any:
    """Return inputs to predict for, arrays and tensors unchanged; an `InputError` unless they are rows of numbers."""
    refuse_masked("inputs", x)
    if not hasattr(x, "shape"):
        x = array_of("inputs", x)
    if not len(x.shape):
        raise InputError(f"inputs are an array with one row a sample, not a single {type(x[()]).__name__}")
    if isinstance(x, np.ndarray) and x.dtype.kind not in "buif":
        raise InputError(f"inputs must be numbers, not {x.dtype}")
    if not x.shape[0]:
        raise InputError(f"there is nothing to predict: inputs of shape {tuple(x.shape)} have no row")
    return x


def uploads_of(
    uploads: "Iterable[Upload] | Mapping[str, tuple[ArrayLike, ArrayLike]]",
) -> "list[Upload] | dict[str, tuple[ArrayLike, ArrayLike]]":
    """Return the argument of `learn`, after checking it: inputs and labels by user, or a list of uploads.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> uploads_of({"ann": [[1.0, 2.0]]})
    Traceback (most recent call last):
    cause.errors.InputError: the upload of user 'ann' is a pair of inputs and labels, (x, y), not a list of 1
    """
    if isinstance(uploads, Mapping):
        return {user: _pair(user, given) for user, given in uploads.items()}
    hint = 'a round is given as {"alice": (x, y)}: inputs and labels by user'
    if isinstance(uploads, str | bytes | np.ndarray) or not isinstance(uploads, Iterable):
        raise InputError(f"{hint}; not as {_kind(uploads)}")
    listed = list(uploads)
    for upload in listed:
        if not all(hasattr(upload, name) for name in ("user", "round", "positions")):
            raise InputError(f"{hint}, or as uploads; not with {_kind(upload)} in a list")
    return listed


def _pair(user: str, upload: Any) -> tuple[ArrayLike, ArrayLike]:
    if not isinstance(upload, tuple | list) or len(upload) != 2:
        raise InputError(f"the upload of user {user!r} is a pair of inputs and labels, (x, y), not {_kind(upload)}")
    return upload[0], array_of(f"labels of user {user!r}", upload[1])


def rounds_of(rounds: Any) -> tuple[int, ...] | None:
    """Return the rounds of a request as a tuple; a single number is one round.

    >>> rounds_of(1), rounds_of([1, 2]), rounds_of(None)
    ((1,), (1, 2), None)
    """
    if rounds is None:
        return None
    if _whole(rounds):
        return (int(rounds),)
    return tuple(_int(round_) for round_ in _listed("rounds", rounds, "[1, 2]"))


def samples_of(samples: Any) -> tuple[tuple[int, int], ...] | None:
    """Return the samples of a request as pairs of round and position; a `RequestError` if they are no pairs.

    >>> samples_of([(1, 3)])
    ((1, 3),)
    >>> samples_of([1, 2])
    Traceback (most recent call last):
    cause.errors.RequestError: samples are pairs of round and position, as [(1, 3)], not 1: rows are named by handles=
    """
    if samples is None:
        return None
    pairs = []
    for sample in _listed("samples", samples, "[(1, 3)]"):
        pair = tuple(sample) if isinstance(sample, tuple | list | np.ndarray) else ()
        if len(pair) != 2:
            raise RequestError(
                f"samples are pairs of round and position, as [(1, 3)], not {sample!r}: rows are named by handles="
            )
        pairs.append((_int(pair[0]), _int(pair[1])))
    return tuple(pairs)


def handles_of(handles: Any) -> tuple[str, ...] | None:
    """Return the handles of a request as a tuple; a single text is one handle."""
    if handles is None:
        return None
    return (handles,) if isinstance(handles, str) else tuple(_listed("handles", handles, '["6f1e…"]'))


def request_of(user: str, rounds: Any, count: int | None, samples: Any, handles: Any, nonce: str | None) -> Request:
    """Return the request that the arguments of `forget` describe; a `RequestError` if they are none.

    >>> request_of("ann", 1, 5, None, None, None).rounds
    (1,)
    """
    return Request(user, rounds_of(rounds), count, samples_of(samples), handles_of(handles), nonce)


def requests_of(requests: Any, *, names: bool = True) -> list[Request]:
    """Return requests as a list; with `names`, a user's name is a request for everything of that user.

    Raises
    ------
    RequestError
        If one of them is no request.

    Examples
    --------
    >>> requests_of(["ann", Request("bob", rounds=(1,))])[0].everything
    True
    """
    accepted, or_name = (str | Request, " or a user's name") if names else (Request, "")
    listed = []
    for request in [requests] if isinstance(requests, str) or not isinstance(requests, Iterable) else requests:
        if not isinstance(request, accepted):
            raise RequestError(f"a request is a cause.Request{or_name}, not {_kind(request)}")
        listed.append(Request(request) if isinstance(request, str) else request)
    return listed


def check_learner(learner: Any) -> None:
    """Raise an `InputError` for an object that is no learner; the message names a learner that can wrap it."""
    if not isinstance(learner, type) and all(hasattr(learner, name) for name in _METHODS):
        return
    named = learner.__name__ if isinstance(learner, type) else type(learner).__name__
    hint = "cause.TorchLearner, cause.SklearnLearner or cause.AdditiveLearner makes one"
    if hasattr(learner, "partial_fit"):
        estimator = f"{named}()" if isinstance(learner, type) else "it"
        hint = f"give SklearnLearner({estimator}, classes=…, features=…) of cause.learners.sklearn"
    elif hasattr(learner, "state_dict"):
        hint = "give TorchLearner(function that makes the network, classes=…, shape=…) of cause.learners.torch"
    elif isinstance(learner, str):
        named, hint = repr(learner), f"give TorchLearner({learner!r}, classes=…, shape=…) of cause.learners.torch"
    raise InputError(f"{named} is no learner: {hint}")


def check_whole(**values: Any) -> None:
    """Raise an `InputError` if a value is neither None nor a whole number.

    >>> check_whole(shards=2.5)
    Traceback (most recent call last):
    cause.errors.InputError: shards must be a whole number, not 2.5
    """
    for name, value in values.items():
        if value is not None and not _whole(value):
            raise InputError(f"{name} must be a whole number, not {value!r}")


def refuse_unknown(what: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise an `InputError` for the first name that is not allowed; the message has the most similar one.

    Parameters
    ----------
    what
        What has the names, for the message.
    given, allowed
        The names to check, and those that are allowed.

    Examples
    --------
    >>> refuse_unknown("a learner", ["epoch"], ["epochs", "lr"])
    Traceback (most recent call last):
    cause.errors.InputError: a learner has no 'epoch' (did you mean 'epochs'?): epochs, lr
    """
    for name in given:
        if name not in allowed:
            raise InputError(f"{what} has no {name!r}{nearest(name, allowed)}: {', '.join(sorted(allowed))}")


def _listed(what: str, value: Any, example: str) -> Sequence[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise RequestError(f"{what} are a list, as {example}, not {value!r}")
    return list(value)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _int(value: Any) -> Any:
    """Return a whole number of any library as an int; anything else unchanged, for the request to refuse."""
    return int(value) if _whole(value) else value


def _kind(value: Any) -> str:
    """Return words for a value of a wrong type, for messages."""
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"
