"""Receipts in the form that is given to the user of the erasure, which says nothing of other users.

A receipt in the log says which sub-models were destroyed, from where shards restart and how many samples are trained
again. All of that depends on what other users hold. The form for users has the fields that do not, is signed by the
device as well, and names the entry of the log that it was made from by its Merkle leaf hash. So the entry's inclusion
proof holds for it, too, and an auditor who reads the whole receipt can compare the two.
"""

import json
from typing import Any

from cause.device.log import SigningKey, leaf_hash, open_note, sign_note
from cause.device.log.merkle import HASH_BYTES
from cause.errors import LogError

OWN = "own"
"""The value of `form` in a receipt for users; receipts in the log have no such field."""
FIELDS = (
    "format", "kind", "request", "received", "deadline", "released", "in_effect", "repaired", "samples", "recipe",
    "environment", "software", "nonce_sha256", "cluster",
)  # fmt: skip
"""Fields of a receipt that do not depend on other users."""


def own_form(entry: bytes, signer: SigningKey) -> bytes:
    """Return an entry of the log in the form for users, signed.

    Parameters
    ----------
    entry
        The signed note in the log.
    signer
        The device's key.

    Raises
    ------
    LogError
        If the entry's signature does not hold.
    """
    whole = json.loads(open_note(entry, [signer.verifier]))
    body = {name: whole[name] for name in FIELDS if name in whole}
    body |= {"form": OWN, "entry": leaf_hash(entry).hex()}
    return sign_note(json.dumps(body, sort_keys=True) + "\n", [signer])


def entry_of(body: dict[str, Any]) -> bytes | None:
    """Return the leaf hash of the entry that a user's receipt was made from; None for a receipt of the log itself.

    Raises
    ------
    LogError
        If the receipt is a form that this version does not know, or its entry is not a hash.
    """
    form = body.get("form")
    if form is None:
        return None
    try:
        entry = bytes.fromhex(body["entry"])
    except (KeyError, TypeError, ValueError):
        entry = b""
    if form != OWN or len(entry) != HASH_BYTES:
        raise LogError(f"a receipt of an unknown form {str(form)[:40]!r}: a newer version of cause may know it")
    return entry
