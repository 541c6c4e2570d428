"""Write a vault as version 0.1 did: `wrap`, `keys.0`, `keys.1`."""

import os

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cause.device.vault import keyfile
from cause.device.vault.sealing import derive
from cause.device.vault.slots import SLOT_BYTES, Slot

CHUNK = 256


def write_old(folder, master, batches, generation=1):
    """A vault of one generation, with one record a batch of keys."""
    folder.mkdir()
    vault_id = os.urandom(16)
    wrap = bytearray(2 * SLOT_BYTES)
    put_generation(folder, wrap, master, vault_id, batches, generation)
    (folder / f"keys.{(generation + 1) % 2}").write_bytes(bytes(CHUNK))
    return vault_id


def put_generation(folder, wrap, master, vault_id, batches, generation):
    """The files of a generation; what `wrap` holds of another one stays."""
    key, head, nonce = os.urandom(32), keyfile.head(generation, vault_id), os.urandom(12)
    sealed = AESGCM(derive(master, "wrap")).encrypt(nonce, key, head)
    slot = Slot(generation, vault_id + nonce + sealed)
    wrap[slot.offset : slot.offset + SLOT_BYTES] = slot.encode(b"CAUSEWRP")
    (folder / "wrap").write_bytes(wrap)
    data = head + b"".join(
        keyfile.record(key, head, number, b"".join(name + own for name, own in batch.items()))
        for number, batch in enumerate(batches)
    )
    (folder / f"keys.{generation % 2}").write_bytes(data.ljust(-(-len(data) // CHUNK) * CHUNK, b"\0"))
