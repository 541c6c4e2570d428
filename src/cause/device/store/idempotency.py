"""Calls of `learn` with an idempotency key: the same key again leads to the same round, for a week.

The table `calls` keeps a keyed code of the key, the round and how many samples it took in; nothing there is made of
the samples. Once anything of the round is forgotten the row is deleted: the key then means a new round.
"""

import hmac
from collections.abc import Mapping, Sequence, Set
from typing import Any

from cause.common.hashing import digest
from cause.device.store.inbox import CallResult
from cause.device.store.layout import DEVICE_KEY
from cause.device.store.ledger import HomeLedger
from cause.device.store.tables.staged import LEARN
from cause.device.vault import Vault
from cause.engine.arrays import ArrayUpload
from cause.engine.samples import Upload
from cause.errors import InputError

LONGEST_KEY = 128


def call_id(vault: Vault, key: str) -> str:
    """Return the id of a call with this idempotency key; InputError if the key is too long or not printable."""
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InputError(
            f"an idempotency key is a text of 1 to {LONGEST_KEY} printable characters, not {str(key)[:40]!r}"
        )
    secret = vault.commit(DEVICE_KEY, digest("calls of learn"))
    return LEARN + hmac.digest(secret, key.encode(), "sha256").hex()[:32]


def handles_of_repeat(
    ledger: HomeLedger, users: Set[str], earlier: CallResult, uploads: Mapping[str, Any] | Sequence[Upload]
) -> dict[str, tuple[str, ...]]:
    """Return the handles of the rows of a repeated call, by user, in the order of the repeated rows.

    Parameters
    ----------
    ledger
        The retained samples.
    users
        The users of whom the first call's round has samples.
    earlier
        The result of the first call.
    uploads
        The samples of the repeated call.

    Raises
    ------
    InputError
        If they are not the stored samples of the first call.
    """
    round_ = earlier.round
    assert round_ is not None
    if isinstance(uploads, Mapping):
        repeated = {user: _numbered(user, round_, *upload[:2]) for user, upload in uploads.items()}
    else:
        repeated = {upload.user: upload for upload in uploads if isinstance(upload, ArrayUpload)}
    handles = {}
    if users != set(repeated):
        raise _other_samples(round_)
    for user, upload in repeated.items():
        stored = ledger.upload(user, round_)
        if upload.round != round_ or upload.names(upload.positions) != stored.names(stored.positions):
            raise _other_samples(round_)
        meta = stored.blocks.metas()
        by_id = {id_.tobytes(): handle.tobytes().hex() for id_, handle in zip(meta.ids, meta.handles, strict=True)}
        if isinstance(uploads, Mapping):
            order = sorted(zip(upload.handles, upload.rows()[3], strict=True))
            handles[user] = tuple(by_id[id_] for _, id_ in order)
    return handles


def _numbered(user: str, round_: int, x: Any, y: Any) -> ArrayUpload:
    """Return an upload whose handles are the numbers of its rows, to find their order again."""
    count = len(y) if hasattr(y, "__len__") else 0
    return ArrayUpload(user, round_, x, y, [number.to_bytes(8, "big") for number in range(count)])


def _other_samples(round_: int) -> InputError:
    return InputError(
        f"this idempotency key came with other samples before, which are round {round_}: nothing was changed; use "
        "another key for these"
    )
