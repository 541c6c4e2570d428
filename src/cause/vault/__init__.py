"""Keys at rest: what is sealed under a key is gone for good once the key is.

A vault holds one data key a block of samples and one a sub-model. Its files are

    keys.0, keys.1   the data keys, sealed under a wrapping key; one file is in use, the other is zeros
    wrap             the wrapping key of the current generation, sealed under the master key

and the master key comes from outside (`KeySource`). Each erasure writes the remaining keys under a *fresh* wrapping key
into the other file, stores that key in the other half of `wrap`, and then overwrites the old half and the old file
with zeros. Whoever later finds an old copy of a key file (on worn flash, in a snapshot, in a backup that should not
have contained it) has nothing that opens it, even with the master key.

What this does not protect: whoever has the master key *and* old copies of *both* `wrap` and a key file can open them.
On flash and on copy-on-write file systems "overwritten" means "written elsewhere", so such copies of `wrap` can exist
for a while (4 KiB of them an erasure). A `RotatingKeySource` closes that: the master key itself is replaced at each
erasure, in a place that can truly forget. And while a process runs its memory holds the keys; Python cannot wipe them
reliably (the table of keys is overwritten when it is replaced, copies made on the way are not), so swap, core dumps
and hibernation images are the system's to forbid. `docs/erasure-at-rest.md` says all this for users.
"""

from cause.vault.sealing import commitment, joint_key, open_sealed, seal
from cause.vault.sources import (
    CommandKeySource,
    EnvKeySource,
    FileKeySource,
    KeySource,
    RotatingFileKeySource,
    RotatingKeySource,
)
from cause.vault.vault import FILES, Vault

__all__ = [
    "FILES",
    "CommandKeySource",
    "EnvKeySource",
    "FileKeySource",
    "KeySource",
    "RotatingFileKeySource",
    "RotatingKeySource",
    "Vault",
    "commitment",
    "joint_key",
    "open_sealed",
    "seal",
]
