"""Sub-models at rest: each sealed under a key of its own, each a file."""

import os
from collections.abc import Mapping

from cause.device.store.blocks import Files
from cause.device.vault import Vault
from cause.engine.samples import SegmentKey
from cause.errors import DamageError, HomeError, ReadError, VaultError

PLACE = b"sub-model"


class HomeShelf:
    """Writes at once, durably; what is destroyed waits for the ledger to let go of it first."""

    def __init__(self, files: Files, vault: Vault) -> None:
        self.files, self.vault = files, vault
        self.names: dict[SegmentKey, bytes] = {}
        self.doomed: list[bytes] = []

    def restore(self, names: Mapping[SegmentKey, bytes]) -> None:
        """Go on with what the ledger names."""
        self.names, self.doomed = dict(names), []

    def put(self, key: SegmentKey, blob: bytes) -> None:
        name = os.urandom(16)
        self.vault.add_keys([name])
        try:
            self.files.write([(name, self.vault.seal(name, blob, PLACE))])
        except BaseException:
            self.doomed.append(name)  # what was written of it goes with the next that is destroyed
            raise
        self.names[key] = name

    def get(self, key: SegmentKey) -> bytes:
        """A sub-model's bytes.

        Raises
        ------
        DamageError
            If its file or its key is missing, or its bytes do not authenticate: it is to be dropped.
        ReadError
            If its file cannot be read now: nothing is known of its bytes, so it is kept.
        """
        try:
            return self.vault.open_sealed(self.names[key], self.files.read(self.names[key]), PLACE)
        except ReadError:
            raise
        except (VaultError, HomeError) as error:
            raise DamageError(f"sub-model {key} is damaged or lost: {error}") from None

    def destroy(self, key: SegmentKey) -> None:
        self.doomed.append(self.names.pop(key))
