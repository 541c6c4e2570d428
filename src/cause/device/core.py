"""The parts of a device: engine, home, ledger, memory and the sub-models that serve."""

from collections.abc import Collection
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING

from cause.device.calls import device_call
from cause.device.lookup import Lookup
from cause.engine import ensemble
from cause.engine.chain import Chain
from cause.engine.engine import Engine
from cause.engine.journal import Journal
from cause.engine.learner import Learner
from cause.engine.memory import SubModel
from cause.engine.results import Voter
from cause.errors import CauseError, InputError

if TYPE_CHECKING:
    from cause.device.home.home import Home


class DeviceCore:
    """The parts of a device, and its sub-models. `DeviceView` and `Cause` build on it.

    Parameters
    ----------
    engine
        Shards, ledger and memory.
    home
        The home of the device; None if it is in memory.
    """

    def __init__(self, engine: Engine, home: "Home | None") -> None:
        self.engine, self.home = engine, home
        self.ledger, self.memory, self.system = engine.ledger, engine.memory, engine.system
        self.classes, self.controller, self.state = engine.classes, engine.controller, engine.state
        self._lookup = Lookup(engine.state, home)
        self.is_closed = False

    @property
    def learner(self) -> Learner:
        """The learner that trains sub-models, with the pruning and precision of the system."""
        return self.engine.learner

    @property
    def lock(self) -> RLock:
        """The lock of ledger and memory: hold it to read them while other threads may change them."""
        return self.state.lock

    @property
    def journal(self) -> Journal:
        """The journal, which makes changes durable."""
        return self.state.journal

    @journal.setter
    def journal(self, journal: Journal) -> None:
        self.state.journal = journal

    @property
    def changes(self) -> int:
        """A counter that grows with each deletion, and with each sub-model that turns out to be damaged."""
        return self.state.changes

    def current(self, shard: int, since: int) -> bool:
        """Return whether a shard is unchanged since `changes` had this value: nothing forgotten, nothing damaged."""
        return self.state.current(shard, since)

    def name_of(self, user: str) -> str:
        """Return a user's name as the device stores it: in normal form, or as written if an older home holds that."""
        return self._lookup.name_of(user)

    @device_call
    def complete_sums(self) -> None:
        """Add what is not in an additive state, as after a crash: under that law nothing waits.

        Samples that cannot be read are left out; `repair` names the error. Trained sub-models are left as they are.
        """
        with suppress(CauseError):
            self.engine.training.prepare()

    @device_call
    def waiting(self) -> list[int]:
        """Return the shards that wait for training: their head is not their newest segment, or they have none."""
        self.complete_sums()
        return self.state.waiting()

    @device_call
    def heads(self) -> dict[int, SubModel]:
        """Return the sub-models that vote, by shard."""
        self.complete_sums()
        return self.state.heads()

    @device_call
    def voters(self) -> list[Voter]:
        """Return the sub-models that vote now, each with its weight."""
        self.complete_sums()
        return ensemble.voters(self.state)

    @device_call
    def load(self, sub_model: SubModel) -> bytes | None:
        """Return the bytes of a stored sub-model; None if it was deleted, or is damaged (it is dropped then)."""
        return ensemble.head_bytes(self.state, sub_model)

    @device_call
    def chains(self, shards: Collection[int] | None = None) -> list[Chain]:
        """Return what a replay of each shard needs: retained samples, seeds, and the stored sub-models."""
        return self.engine.training.chains(self.learner, shards)


def home_of(device: DeviceCore, call: str | None = None) -> "Home":
    """Return the home of a device.

    Parameters
    ----------
    device
        The device.
    call
        The public method that needs the home, for the message.

    Raises
    ------
    InputError
        If the device is in memory.
    """
    if device.home is None:
        needed = "a device with a home is needed" if call is None else f"`{call}` needs a device with a home"
        raise InputError(f"{needed}, and this one is in memory: make it with Cause('device/', …)")
    return device.home
