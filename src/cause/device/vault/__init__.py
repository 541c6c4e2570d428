"""Keys at rest: what is sealed under a key cannot be read once the key is destroyed.

A vault holds one data key a block of samples and one a sub-model. Its files, each with a second copy (`.copy`), are

    root               the root key of the current generation, sealed under the master key, in one of two slots
    table.0, table.1   the keys of the pages, sealed under the root key; one file is in use, the other is zeros
    pages              pages of data keys, each sealed under its own key; some pages are free and zeros

and the master key comes from outside (`KeySource`). Each erasure writes the remaining keys of the pages that it touches
under *fresh* keys into free pages, a new table under a *fresh* root key into the other file, stores that root key in
the other slot of `root`, and then overwrites the old slot, table and pages with zeros, in both copies. An old copy of a
table or a page (on worn flash, in a snapshot, in a backup that should not have contained it) then opens with nothing
that is left, even with the master key.

What this does not prevent: with the master key *and* old copies of `root`, a table and pages, the keys can be read.
On flash and on copy-on-write file systems "overwritten" means "written elsewhere", so such copies of `root` can exist
for a while (8 KiB of them an erasure). A `RotatingKeySource` closes that: the master key itself is replaced at each
erasure, in a place that can truly forget. And while a process runs its memory holds the keys; the vault overwrites its
own copies, but swap, core dumps and hibernation images are the system's to forbid. `docs/erasure-at-rest.md` says all
this for users.
"""

from cause.device.vault.loading import FILES
from cause.device.vault.sealing import commitment, joint_key, open_sealed, seal
from cause.device.vault.sources import (
    CommandKeySource,
    EnvKeySource,
    FileKeySource,
    KeySource,
    RotatingFileKeySource,
    RotatingKeySource,
)
from cause.device.vault.vault import Vault

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
