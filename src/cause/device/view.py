"""Questions to a device: its samples, predictions, plans, status and proofs.

They change nothing of what the device holds, but two things: a damaged sub-model that is met is dropped (its shard then
waits for training), and samples that are not yet in an additive state are added to it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.device.calls import device_call
from cause.device.core import DeviceCore, home_of
from cause.device.matching import Matched, match
from cause.device.verify import Verification, verify
from cause.engine import ensemble
from cause.engine.arguments import check_whole, inputs_of, requests_of
from cause.engine.executor import Executor
from cause.engine.plan import ShardPlan
from cause.engine.progress import Progress
from cause.engine.requests import Request, merged
from cause.engine.results import HeldSample
from cause.engine.voting import VOTES, Labels
from cause.errors import InputError
from cause.executors import InProcess

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from cause.device.energy.model import EnergyModel
    from cause.device.receipts.receipts import Bundle
    from cause.device.status import Status


class DeviceView(DeviceCore):
    """The reading side of a device, on which `Cause` builds."""

    @device_call
    def samples_of(self, user: str, *, round: int | None = None) -> list[HeldSample]:  # noqa: A002
        """List the samples of a user, or of one of their rounds: round, handle, label and time of arrival.

        Staged samples come last and have no round. A device in memory raises InputError.
        """
        with self.lock:
            return home_of(self, "samples_of").samples_of(self.name_of(user), round)

    @device_call
    def match(self, user: str, x: ArrayLike, y: ArrayLike | None = None) -> Matched:
        """Find the samples of a user that equal these rows, in inputs and, if `y` is given, labels. Changes nothing."""
        with self.lock:
            return match(self, self.name_of(user), x, y)

    @device_call
    def plan(self, *requests: Request | str) -> list[ShardPlan]:
        """Compute what serving these requests together would touch and cost. Changes nothing.

        Parameters
        ----------
        requests
            Requests, or names of users: a name means everything of that user.

        Raises
        ------
        RequestError
            If nothing is held of a user, or not all that was named.
        """
        with self.lock:
            named = [replace(request, user=self.name_of(request.user)) for request in requests_of(requests)]
            return self.engine.plan(merged(self._lookup.selections(named)))

    @device_call
    def predict(self, x: Any) -> Labels:
        """Predict the label of each sample of `x` by a vote of the heads.

        Raises
        ------
        InputError
            If `x` has no row, a value that is not finite, or not the shape that the learner needs.
        CauseError
            If no shard has a sub-model.
        """
        weights, probabilities = self.votes(x)
        return VOTES[self.system.vote](probabilities, weights)

    @device_call
    def votes(self, x: Any) -> tuple[NDArray[np.float64], NDArray[np.floating]]:
        """The weight of each head (the samples behind it), and its probabilities: voter × sample × class."""
        self.state.refresh_if_reader()
        self.engine.training.prepare()
        return ensemble.votes(self.state, self.engine.training, self.learner, inputs_of(x))

    @device_call
    def verify(
        self,
        receipt: "int | str | Bundle | None" = None,
        *,
        processes: int = 1,
        progress: Progress | None = None,
        began: "Callable[[ProcessPoolExecutor], None] | None" = None,
        executor: Executor | None = None,
    ) -> Verification:
        """Train again from the retained data alone, in fresh processes, and compare with the stored sub-models.

        Parameters
        ----------
        receipt
            The number of a receipt, its request's id, or a bundle from elsewhere: check its signature, its place in the
            log and its commitments, and replay the shards that it names. Without one, replay all shards.
        processes
            How many processes replay; 0 replays in this one.
        progress
            Called after each shard, with how many are done and how many there are.
        began
            Called with the pool of processes, for a caller that may have to end them.
        executor
            Replays instead of processes of this machine, such as a `RayExecutor`. It must not be the one that the
            device trains with. A home must be open for writing, so that erasures reach its workers.

        Returns
        -------
        Verification
            Which sub-models are identical, and what does not hold.

        Raises
        ------
        LogError
            If the receipt's signature or its proof does not hold, or there is no such receipt.
        ChangedError
            If samples were forgotten or damage was noticed meanwhile.
        """
        check_whole(processes=processes)
        if executor is not None and executor is self.engine.executor:
            raise InputError("the device trains with this executor: verify with another one of the same cluster")
        if processes < 0:
            raise InputError(f"processes is how many processes replay, or 0 for this one, not {processes}")
        if receipt is None:
            return verify(self, processes=processes, progress=progress, began=began, executor=executor)
        if self.home is None:
            raise InputError("receipts are for a device with a home: Cause('device/', …)")
        with self.lock:
            body = self.home.receipts.verified_body(receipt)
        touched = {shard["shard"] for shard in body["shards"]}
        verification = verify(
            self, shards=touched, processes=processes, progress=progress, began=began, executor=executor
        )
        with self.lock:
            wrong, superseded = self.home.receipts.check_commitments(body)
        return replace(verification, wrong=wrong, superseded=superseded)

    @device_call
    def status(self, model: "EnergyModel | None" = None) -> "Status":
        """Return the state of a device with a home: what serves, what waits, what repair will cost, what is due when.

        With an energy model (`cause calibrate --out`) the costs are in seconds and joules too. A device in memory
        raises InputError.
        """
        from cause.device.status import status

        self.state.refresh_if_reader()
        return status(self, model)

    # Its end, and copies of a device in memory

    def close(self) -> None:
        """End the workers, close all files and release the home's lock."""
        self.is_closed = True
        try:
            self.engine.close()
        finally:
            self.journal.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a device in memory, for copies by scikit-learn's tools; homes are never copied so."""
        if self.home is not None:
            raise InputError("a device with a home is not copied: its folder is what lasts, so open that again")
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.engine.executor = InProcess()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
