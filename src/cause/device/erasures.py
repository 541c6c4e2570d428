"""Serving requests to forget: record them, delete what they name, and train what is left again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cause.device.error_notes import add_to_errors, requests_recorded
from cause.device.lookup import Lookup
from cause.engine.engine import Engine
from cause.engine.ledger import Selection
from cause.engine.requests import Request, merged, remaining
from cause.engine.results import Effect, Forgotten

if TYPE_CHECKING:
    from cause.device.home.home import Home

Train = Callable[[], int]
"""Trains all shards that wait, and returns how many samples were trained again."""


class Erasures:
    """The requests of a device.

    Parameters
    ----------
    engine
        Deletes samples and sub-models.
    home
        The home of the device; None if it is in memory.
    lookup
        Finds the samples that requests name.
    """

    def __init__(self, engine: Engine, home: "Home | None", lookup: Lookup) -> None:
        self._engine, self._home, self._lookup = engine, home, lookup
        self._ledger, self._state = engine.ledger, engine.state
        self._unserved = home is not None and not home.read_only  # an earlier process may have left some

    def load_home(self, home: "Home") -> None:
        """Load the state of a home that was opened, and finish requests that its last process left unfinished."""
        home.check_recipe(self._engine.learner)
        home.bind(self._engine.memory)
        if home.read_only:
            home.refresh(home.memory)
            return
        home.load(home.memory)
        self.resume()
        if not home.accepted():  # requests may name samples by positions that an upgrade changes
            home.upgrade()
        self.expire_staged()

    def serve(
        self, requests: Sequence[Request], *, together: bool, ids: Sequence[str] | None, lenient: bool,
        train: Train | None,
    ) -> list[Forgotten]:  # fmt: skip
        """Record requests durably, delete what they name, and train what is left.

        Parameters
        ----------
        requests
            What to forget; all of it is looked up before anything is changed.
        together
            Whether all of them take effect at once, and one training follows.
        ids
            The requests' ids; None draws them at random.
        lenient
            Serve a request for everything of an unknown user, too.
        train
            Called after each deletion; None leaves the training to a later repair.

        Returns
        -------
        list of Forgotten
            One for each request, or one for all of them together.

        Raises
        ------
        RequestError
            If nothing is held of a user, or not all that was named. Nothing was changed then.
        """
        in_effect: list[str] = []
        with self._state.lock:  # no other request may come between the choice of the samples and their deletion
            self.resume(lenient=True)
            requests = [replace(request, user=self._lookup.name_of(request.user)) for request in requests]
            selections = self._lookup.selections(requests, lenient=lenient)
            accepted = ids = self._state.journal.accept(requests, ids)
            try:
                batches = [
                    ([id_], [request], selection)
                    for id_, request, selection in zip(ids, requests, selections, strict=True)
                ]
                if together:
                    batches = [(ids, list(requests), merged(selections))]
                with add_to_errors(requests_recorded(accepted, in_effect)):
                    first = self.delete(batches[0][0], batches[0][2], requested=_requested(batches[0][1]))
            except BaseException:
                self._unserved = True
                raise
        try:
            with add_to_errors(lambda: requests_recorded(accepted, in_effect)):
                done = []
                for number, (batch_ids, batch, selection) in enumerate(batches):
                    effect = first
                    if number:
                        effect = self.delete(batch_ids, selection, requested=_requested(batch))
                    in_effect += batch_ids
                    rsn = 0 if train is None else train()
                    done.append(
                        Forgotten(
                            requests=tuple(batch), shards=effect.shards, dropped=effect.dropped, rsn=rsn,
                            ids=tuple(batch_ids), samples=effect.samples, staged=effect.staged,
                        )
                    )  # fmt: skip
                return done
        except BaseException:
            self._unserved = True
            raise

    def delete(self, ids: Sequence[str], selection: Selection, *, requested: bool = True) -> Effect:
        """Delete samples and the sub-models that saw them; workers that held the samples end.

        Parameters
        ----------
        ids
            The requests.
        selection
            The samples.
        requested
            Whether the deletion serves a user's request; the memory's policy does not learn from samples that expire.
        """
        effect, touched = self._engine.delete(ids, selection, requested=requested)
        if self._home is not None and touched:
            self._engine.executor.retire(touched)
        return effect

    def resume(self, *, lenient: bool = False) -> None:
        """Serve the requests that were accepted and that a crash or an error kept from taking effect, one by one.

        If some fail, the others are served all the same, and then the first error is raised; with `lenient` none is.

        Raises
        ------
        HomeError
            If an earlier change failed in a way that may leave it on the disk, and the disk refuses to take it back:
            samples may be there then that nobody can name. Nothing was changed.
        """
        if self._home is None:
            return
        self._home.settle()
        if not self._unserved:
            return
        if self._home.garbage:
            self._state.reload()  # what an error kept from being destroyed goes first
        failed: Exception | None = None
        for id_, request in self._home.accepted():
            try:
                self.delete([id_], remaining(self._ledger, request), requested=not request.expiry)
            except Exception as error:
                self._state.reload()  # the next request needs what is on the disk
                failed = failed or error
        if failed is not None and not lenient:
            raise failed
        self._unserved = failed is not None

    def expire(self) -> Forgotten | None:
        """Forget all samples that are older than the home keeps them; return None if there are none.

        The caller holds the device's lock. What is left is not trained again yet.
        """
        self.expire_staged()
        requests = self._state.journal.expired()
        if not requests:
            return None
        (done,) = self.serve(requests, together=True, ids=None, lenient=False, train=None)
        return done

    def expire_staged(self) -> None:
        """Delete staged samples that are older than the home keeps them. No sub-model has seen them."""
        if self._home is not None:
            try:
                self._home.expire_staged()
            except BaseException:
                self._state.reload()
                raise


def _requested(requests: Sequence[Request]) -> bool:
    """Return whether one of these is a user's request; the others come from the retention period."""
    return not all(request.expiry for request in requests)
