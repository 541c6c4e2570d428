"""What must be true of a home whenever a process died over it, before and after it is opened again."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from cause.device.device import Cause
from cause.device.store.named_keys import KEYED, named_keys
from cause.device.verify import verify
from tests.small_learners import Sample
from tests.torture.attack import Loot, attack
from tests.torture.calls import Book, Case, Forget, traces_of
from tests.torture.life import blob_name, seen_by
from tests.torture.sample_ids import contents

KNOWN = {"cause.toml", "ledger.db", "ledger.db-wal", "ledger.db-shm", "lock", "reserve"}
Hit = tuple[str, Sample]
Provenance = Mapping[str, frozenset[Sample]]
"""What each sub-model that was ever written has seen, by the digest of its bytes and by its identity, and of which
samples each digest in the ledger ever was."""


def nothing_comes_back(
    folder: Path,
    case: Case,
    forgotten: Collection[Sample],
    provenance: Provenance,
    *,
    backups: Iterable[Path] = (),
    thorough: bool = False,
) -> list[str]:
    """With the master key, every byte under the home and older copies of its sealed files and its ledger: no forgotten
    sample, no sub-model that saw one, and no digest by which a guess of either could be checked."""
    former_users = _users_without_samples(case, forgotten)
    loot = attack(folder, former_users, backups=backups, thorough=thorough)
    problems = _samples_in(loot, case, forgotten) + _tainted_in(loot, forgotten, provenance)
    return problems + _digests_in(loot, forgotten, provenance) + _texts_in(loot, former_users)


def _samples_in(loot: Loot, case: Case, forgotten: Collection[Sample]) -> list[str]:
    plain = [each.plain for each in loot.found if each.kind in ("samples", "ledger")]
    marks = traces_of(case.calls, forgotten)
    needles = {getattr(each, part): (part, sample) for sample, each in marks.items() for part in ("x", "digest", "id")}
    return [f"{part} of {sample} can be read" for part, sample in _hits(needles, [*loot.files.values(), *plain])]


def _hits(needles: Mapping[bytes, Hit], haystack: Collection[bytes]) -> Iterator[Hit]:
    """Which needles are there, all at once: by their first two bytes in a table, then by eight, then whole."""
    if not needles:
        return
    firsts = np.frombuffer(b"".join(needle[:8] for needle in needles), dtype=np.uint64)
    begins = np.zeros(2**16, dtype=bool)
    begins[firsts.astype(np.uint16)] = True  # little-endian: the first two bytes
    for data in haystack:
        stripped = np.frombuffer(data.strip(b"\0"), dtype=np.uint8)
        if len(stripped) >= 8:
            pairs = stripped[:-7].astype(np.uint16) | (stripped[1:-6].astype(np.uint16) << 8)
            at = np.flatnonzero(begins[pairs])
            windows = np.lib.stride_tricks.sliding_window_view(stripped, 8)[at].view(np.uint64)
            there = np.isin(firsts, windows[windows != 0])
            yield from (needles[needle] for needle, hit in zip(needles, there, strict=True) if hit and needle in data)


def _tainted_in(loot: Loot, forgotten: Collection[Sample], provenance: Provenance) -> list[str]:
    problems = []
    for each in loot.found:
        if each.kind == "sub-model":
            seen = provenance.get(blob_name(each.plain))
            if seen is None:
                problems.append(f"{each.path} opens to a sub-model that nobody wrote")
            elif seen & set(forgotten):
                problems.append(f"{each.path} opens to a sub-model that saw {min(seen & set(forgotten))}")
    return problems


def _digests_in(loot: Loot, forgotten: Collection[Sample], provenance: Provenance) -> list[str]:
    tainted = {bytes.fromhex(mark): seen & set(forgotten) for mark, seen in provenance.items()}
    needles = {mark: ("a digest", min(seen)) for mark, seen in tainted.items() if seen}
    haystack = [*loot.files.values(), *(each.plain for each in loot.found if each.kind == "ledger")]
    return [f"{what} of what {sample} was part of can be read" for what, sample in _hits(needles, haystack)]


def _texts_in(loot: Loot, former_users: Collection[str]) -> list[str]:
    """Users of whom nothing is retained: neither their names nor their requests can be read."""
    problems = [f"the name {user!r} can be read" for user in former_users if loot.contains(user.encode())]
    for each in loot.found:
        if each.kind == "text" and any(user.encode().startswith(each.plain[:8]) for user in former_users):
            problems.append(f"{each.path} opens to the name of a user who is gone")
    return problems


def _users_without_samples(case: Case, forgotten: Collection[Sample]) -> list[str]:
    """Users with something forgotten and nothing retained, if everything else was kept."""
    book = Book.after(case.calls)
    retained = {user for user, _, _ in book.retained | book.staged}
    requested = {request.user for call in case.calls if isinstance(call, Forget) for request in call.requests}
    everything = {s for s in _uploaded(case) if s[0] in requested}
    return sorted(
        user for user in requested - retained if {s for s in everything if s[0] == user} <= set(forgotten)
    )  # fmt: skip


def _uploaded(case: Case) -> set[Sample]:
    book = Book.after(case.calls)
    return book.retained | book.forgotten


def waiting(device: Cause) -> dict[str, int]:
    """What is staged: uploads, and how many samples each holds that can be read."""
    home = device.home
    assert home is not None
    uploads = home.inbox.contents_by_user()
    assert sum(len(y) for _, y, _ in uploads.values()) == sum(upload.samples for upload in home.inbox.uploads())
    return {each.id: each.samples for each in home.inbox.uploads()}


def held(device: Cause) -> set[Sample]:
    """The samples that a device holds."""
    ledger = device.ledger
    return {s for shard in ledger.shards() for segment in ledger.lineage(shard) for s in contents(segment.pieces)}


def whole(device: Cause, retained: Collection[Sample], provenance: Provenance) -> list[str]:
    """The device holds exactly this, within its memory, and nothing that its ledger does not name."""
    problems = []
    here = held(device)
    if here != retained:
        lost, extra = set(retained) - here, here - set(retained)
        problems.append(f"retained: {len(lost)} lost {sorted(lost)[:3]}, {len(extra)} too many {sorted(extra)[:3]}")
    memory = device.memory
    if memory.used_bytes > memory.budget_bytes or len(memory) > memory.slots:
        problems.append(f"over budget: {memory.used_bytes} bytes, {len(memory)} sub-models")
    for key in memory.stored():
        blob = memory.shelf.get(key)
        if provenance.get(blob_name(blob)) != seen_by(device.ledger, key):
            problems.append(f"sub-model {key} has not seen exactly what is retained up to it")
    return problems + only_what_is_named(device) + all_in_the_log(device)


def all_in_the_log(device: Cause) -> list[str]:
    """Every request is in effect, and has a receipt that the device signed and its log contains."""
    home = device.home
    assert home is not None
    waiting = [each for (each,) in home.database.rows("SELECT id FROM requests WHERE effective IS NULL")]
    without = home.database.rows("SELECT id FROM requests WHERE id NOT IN (SELECT request FROM leaves)")
    problems = [f"request {each} is not in effect" for each in waiting]
    problems += [f"request {each} has no receipt" for (each,) in without if each not in waiting]
    for number in range(home.receipts.size):
        home.receipts.bundle(number).check(home.receipts.verifier)
    return problems


def only_what_is_named(device: Cause) -> list[str]:
    """No key and no file but those that the ledger names."""
    home, problems = device.home, []
    assert home is not None
    named = {
        table: {bytes(key) for (key,) in home.database.rows(f"SELECT key FROM {table} WHERE key IS NOT NULL")}
        for table in KEYED
    }
    keys = home.vault.names() - home.garbage  # what the next erasure will take along
    keys -= home.shelf.all_names() - named["sub_models"]  # of a state that is in memory alone, or was replaced there
    if keys != named_keys(home.database):
        problems.append(f"{len(keys)} keys, but { ({table: len(own) for table, own in named.items()}) }")
    blocks = named["blocks"] | named["staged"]
    for folder, own in ((home.layout.blocks, blocks), (home.layout.sub_models, named["sub_models"])):
        if {path.name for path in folder.iterdir()} != {name.hex() for name in own}:
            problems.append(f"{folder.name} holds other files than the ledger names")
    strays = {path.name for path in home.layout.folder.iterdir() if path.is_file()} - KNOWN
    strays |= {path.name for path in home.layout.folder.rglob("*.part")}
    return problems + [f"stray file {name}" for name in sorted(strays)]


def exact(device: Cause) -> list[str]:
    """Every stored sub-model is what training on the retained samples alone makes of them."""
    return [f"sub-model {key} is not what a replay makes" for key in verify(device, processes=0).mismatched]
