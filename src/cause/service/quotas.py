"""Quotas: how much one user may hold, so that one user's token cannot fill the device and lock the others out."""

import shutil
import threading
from dataclasses import dataclass

from cause.common.units import format_bytes
from cause.device.core import home_of
from cause.device.device import Cause
from cause.service.problems import QUOTA, ProblemError
from cause.service.settings import ServeSettings, share_of

SAMPLE_BYTES = 64
"""What a block keeps of each sample beside its input: id, label and handle."""


@dataclass(frozen=True)
class Holding:
    """What one user holds, staged samples included."""

    samples: int
    bytes: int


class Quotas:
    """The quotas of a device's users. They hold for uploads with a user's own token.

    Tokens of the scopes `operator` and `ingest` are not limited: an operator sets the quota, and an `ingest` token must
    not learn how much there is of a user.

    Parameters
    ----------
    device
        The device that holds the samples.
    settings
        `user_samples` and `user_storage`.
    """

    def __init__(self, device: Cause, settings: ServeSettings) -> None:
        self._device = device
        self.turn = threading.Lock()
        """Held from a check until the upload is staged: two uploads at once must not both count as the last one."""
        self.apply(settings)

    def apply(self, settings: ServeSettings) -> None:
        """Use other settings from now on."""
        home = home_of(self._device)
        whole = home.storage_bytes
        if whole is None:
            whole = shutil.disk_usage(home.layout.folder).total
        self.samples = settings.user_samples
        self.bytes: int | None = share_of(settings.user_storage, whole)

    def held(self, user: str) -> Holding:
        """Return what a user holds."""
        home, ledger = home_of(self._device), self._device.ledger
        with self._device.lock:
            staged = home.inbox.of_any_spelling(user)
            samples, size = sum(upload.samples for upload in staged), sum(upload.bytes for upload in staged)
            for name in ledger.names_like(user):
                for round_ in ledger.rounds_of(name):
                    samples += sum(len(positions) for _, positions in ledger.pieces_of(name, round_))
                pseudonym = home.directory.pseudonym(name)
                size += 0 if pseudonym is None else home.queries.bytes_of(pseudonym)
        return Holding(samples, size)

    def check(self, user: str, samples: int, input_bytes: int) -> None:
        """Refuse an upload that would exceed the quota; call it with `turn`, before the upload is staged.

        Parameters
        ----------
        user
            The user.
        samples
            The samples of the upload.
        input_bytes
            What its inputs take.

        Raises
        ------
        ProblemError
            409 of the kind `quota-exceeded`. The detail speaks of this user's samples alone.
        """
        if self.samples is None and self.bytes is None:
            return
        held = self.held(user)
        if self.samples is not None and held.samples + samples > self.samples:
            raise ProblemError(
                409,
                f"{samples:,} samples beside your {held.samples:,} are more than your quota of {self.samples:,}: "
                "forget some, or ask the operator",
                kind=QUOTA,
            )
        size = input_bytes + samples * SAMPLE_BYTES
        if self.bytes is not None and held.bytes + size > self.bytes:
            raise ProblemError(
                409,
                f"{format_bytes(size)} beside your {format_bytes(held.bytes)} are more than your quota of "
                f"{format_bytes(self.bytes)}: forget some, or ask the operator",
                kind=QUOTA,
            )
