"""How samples become a round: by a call of `learn`, or staged upload by upload until the round is closed."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cause.device.erasures import Erasures
from cause.engine.arrays import ArrayUpload
from cause.engine.arrivals import InputSpec, check_round, spec_of
from cause.engine.checks import by_normal_name, check_names, check_not_empty, checked_uploads
from cause.engine.engine import Engine
from cause.engine.results import Arrived, Learned
from cause.engine.samples import SegmentKey, Upload
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.home.home import Home
    from cause.device.store.inbox import CallResult, RoundIntake

Uploads = (
    Iterable[Upload]
    | Mapping[str, tuple[ArrayLike, ArrayLike]]
    | Mapping[str, tuple[ArrayLike, ArrayLike, Sequence[bytes]]]
)
"""Uploads, or inputs, labels and perhaps handles by user."""


class Recorded(NamedTuple):
    """A round that was recorded and is not trained yet."""

    round: int
    active: int
    """How many shards take new data in it."""
    uploads: Mapping[str, Upload]
    waiting: list[int]
    """The shards that waited for a repair before it."""

    @property
    def samples(self) -> int:
        """How many samples arrived."""
        return sum(len(upload.positions) for upload in self.uploads.values())


class Rounds:
    """The rounds of a device.

    Parameters
    ----------
    engine
        Assigns uploads to shards and records them.
    home
        The home of the device; None if it is in memory.
    erasures
        Serves requests that were accepted before, so that a round takes in nothing that is to be forgotten.
    inputs
        Shape and type of the inputs, as far as the settings give them.
    """

    def __init__(self, engine: Engine, home: "Home | None", erasures: Erasures, inputs: InputSpec) -> None:
        self._engine, self._home, self._erasures, self._inputs = engine, home, erasures, inputs
        self._ledger, self._state = engine.ledger, engine.state

    def inputs(self) -> InputSpec:
        """Return shape and type of the inputs that the device takes: as set, by the learner, or of held samples."""
        with self._state.lock:
            return spec_of(self._inputs, self._engine.learner, self._ledger, self._state.journal.staged_kind)

    def checked(self, uploads: Any) -> Any:
        """Return the uploads of a round in the form that the device keeps; see `cause.engine.arrivals.check_round`."""
        return check_round(uploads, self.inputs(), self._engine.learner)

    def begin(self, uploads: Uploads, idempotency_key: str | None, *, empty: bool) -> tuple[Learned, list[int]]:
        """Record a round, or find the one that a call with the same key has recorded. The caller holds the lock.

        Parameters
        ----------
        uploads
            What arrived, checked.
        idempotency_key
            The key of the call; None records the round without one.
        empty
            Whether an empty round is allowed.

        Returns
        -------
        tuple
            The round before anything of it is trained, and the shards that waited for a repair before it.
        """
        named = by_normal_name(uploads) if isinstance(uploads, Mapping) else check_names(uploads)
        home, call = self._home, None
        if idempotency_key is not None:
            if home is None:
                raise InputError("an idempotency key is for a device with a home: Cause('device/', …)")
            self._erasures.resume()
            call = home.call_id(idempotency_key)
            earlier = home.inbox.result_of_call(call)
            if earlier is not None and earlier.round is not None:
                handles, active = home.handles_of_repeat(earlier, named), self._engine.controller.at(earlier.round)
                learned = Learned(earlier.round, active, (), earlier.samples, handles, repeated=True)
                return learned, [s for s in self._state.waiting() if self._first_untrained(s).round < learned.round]
        handles = {}
        if home is not None and isinstance(named, dict):
            rows = {user: (*upload, _fresh_handles(upload[1])) for user, upload in named.items()}
            handles = {user: tuple(handle.hex() for handle in fresh) for user, (*_, fresh) in rows.items()}
        recorded = self.record(rows if handles else named, call, empty=empty)
        return Learned(recorded.round, recorded.active, (), recorded.samples, handles), recorded.waiting

    def record(
        self, uploads: Uploads, call: str | None = None, *, empty: bool = False, intake: "RoundIntake | None" = None
    ) -> Recorded:
        """Record the next round durably. The caller holds the lock.

        Parameters
        ----------
        uploads
            What arrived, checked.
        call
            The id of the call that brings the samples; None if it has none.
        empty
            Whether a device with a home accepts an empty round.
        intake
            The staged uploads that the round takes in.
        """
        self._erasures.resume()
        t, waiting = self._ledger.round + 1, self._state.waiting()
        if isinstance(uploads, Mapping):
            uploads = [ArrayUpload(user, t, *arrays) for user, arrays in uploads.items()]
        arrived = checked_uploads(uploads, t)
        if self._home is None:
            return Recorded(t, self._engine.record(t, arrived), arrived, waiting)
        check_not_empty(arrived, t, empty=empty)
        arrived = {user: self._home.shuffled(upload) for user, upload in arrived.items()}
        brought = sum(len(upload.positions) for upload in arrived.values())
        write = partial(self._home.ledger.record, intake=intake or self._home.inbox.intake_of_call(call, brought))
        return Recorded(t, self._engine.record(t, arrived, write), arrived, waiting)

    def stage(
        self, home: "Home", uploads: Mapping[str, tuple[ArrayLike, ArrayLike]], calls: Mapping[str, str]
    ) -> "dict[str, CallResult]":
        """Stage uploads by user, all of them or none; `calls` has the ids of the calls of some users."""
        checked = self.checked(by_normal_name(uploads))  # outside the lock: it takes long, and others would wait
        ids = {user: calls.get(user) or token_hex(16) for user in checked}
        with self._state.lock:
            self._erasures.resume()
            for user, (x, _) in checked.items() if self._engine.learner.input_shape is None else ():
                self.inputs().fitted(user, x)  # an upload of another shape may have come meanwhile
            self._erasures.expire_staged()  # where no round is ever closed, nothing else does it
            return home.inbox.stage({user: (ids[user], x, y) for user, (x, y) in checked.items()})

    def close(self, home: "Home", call: str | None, *, empty: bool) -> tuple[Arrived, bool]:
        """Record a round of all staged uploads.

        Parameters
        ----------
        home
            The home of the device.
        call
            The id of the call; None if it has none.
        empty
            Whether an empty round is allowed.

        Returns
        -------
        tuple
            The round, and whether an earlier call with the same id had closed it.
        """
        with self._state.lock:
            self._erasures.resume()  # first: an accepted request may name staged samples
            earlier = None if call is None else home.inbox.result_of_call(call)
            if earlier is not None and earlier.round is not None:
                return Arrived(earlier.round, self._engine.controller.at(earlier.round), 0, earlier.samples), True
            self._erasures.expire_staged()
            uploads, intake = home.inbox.contents_by_user(), home.inbox.intake(call)
            try:
                recorded = self.record(uploads, empty=empty, intake=intake)
            except InputError:
                raise
            except BaseException:
                self._state.reload()
                raise
        return Arrived(recorded.round, recorded.active, len(recorded.uploads), recorded.samples), False

    def _first_untrained(self, shard: int) -> SegmentKey:
        """Return the segment with which the training of a waiting shard goes on."""
        head = self._engine.memory.head(shard)
        return self._ledger.lineage(shard).after(None if head is None else head.key)[0].key


def _fresh_handles(labels: Any) -> list[bytes]:
    from cause.device.store.blocks import new_handles

    return [row.tobytes() for row in new_handles(len(np.atleast_1d(np.asarray(labels))))]
