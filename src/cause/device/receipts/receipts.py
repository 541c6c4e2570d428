"""Receipts: what happened to each request, signed by the device and kept in an append-only log.

A receipt holds commitments, never a digest of data or weights: with a digest, anyone who has the retained data could
replay with a guessed sample and compare. A sub-model is committed to with its own key, a shard's data with a key that
is kept until the shard's data changes; once these keys are destroyed, the commitments reveal nothing.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cause.common.hashing import pack, pack_digests
from cause.common.timestamps import time_text
from cause.common.version import __version__
from cause.device.log import (
    VerifierKey,
    inclusion_proof,
    leaf_hash,
    open_checkpoint,
    open_note,
    root_at,
    verify_inclusion,
)
from cause.device.receipts.own_form import entry_of, own_form
from cause.device.receipts.transparency_log import TransparencyLog
from cause.device.store.database import Database
from cause.device.store.layout import DEVICE_KEY
from cause.device.store.leases import Leases
from cause.device.store.queries import Queries
from cause.device.store.sealed_store import SealedStore
from cause.device.store.seals import open_identity
from cause.device.store.shelf import HomeShelf
from cause.device.vault import commitment
from cause.engine.adding import hash_of
from cause.engine.memory import Memory
from cause.engine.plan import ShardPlan
from cause.engine.samples import SegmentKey
from cause.engine.set_hash import SetHash
from cause.errors import HomeError, LogError

if TYPE_CHECKING:
    from cause.device.store.ledger import HomeLedger

FORMAT = 1
SALT_BYTES = 16
"""Random bytes in each receipt, so that the contents of an entry cannot be guessed from its hash."""
NONCE = b"cause: nonce of a request\0"
"""The prefix of a nonce when it is hashed."""


SET_HASH = "set-hash"
"""The value of `data_form` where `data` commits to a hash of the set of samples; without it, to a list of digests."""
OUTSIDE = "a machine that was frozen as a whole: suspended, paused, or copied while it ran"
"""What the bound of a lease does not cover, as receipts say it."""


def nonce_digest(nonce: str | None) -> str | None:
    """Return the hash of a nonce that receipts contain as `nonce_sha256`; None without a nonce.

    >>> nonce_digest("a random text")
    '974ee8eeacbe010d2b34928bf30ea8205d6d6269a9e49019a265c5dfdad0142e'
    """
    return None if nonce is None else hashlib.sha256(NONCE + nonce.encode()).hexdigest()


@dataclass
class Evidence:
    """The contents of a receipt, collected before the keys that it commits with are destroyed."""

    covered: dict[str, Any]
    """What the request touched, as the table of requests keeps it."""
    keys: dict[bytes, bytes] = field(default_factory=dict)
    """New keys by name, which commit to the shards' data."""
    shards: dict[int, bytes] = field(default_factory=dict)
    """The name of the new key of each shard."""
    old: list[bytes] = field(default_factory=list)
    """The names of the keys of earlier receipts, which are destroyed."""


@dataclass(frozen=True)
class Bundle:
    """A receipt with everything that is needed to check it away from the device."""

    number: int
    receipt: bytes
    proof: tuple[bytes, ...]
    checkpoint: bytes

    def json(self) -> dict[str, Any]:
        """Return the bundle as a dict for JSON; `parse` reads it."""
        proof = [base64.b64encode(node).decode() for node in self.proof]
        return {
            "number": self.number,
            "receipt": self.receipt.decode(),
            "proof": proof,
            "checkpoint": self.checkpoint.decode(),
        }

    @classmethod
    def parse(cls, payload: Any) -> "Bundle":
        """Read a bundle from a dict, as `json` writes it; LogError if it is anything else."""
        try:
            proof = tuple(base64.b64decode(node, validate=True) for node in payload["proof"])
            receipt, checkpoint = payload["receipt"].encode(), payload["checkpoint"].encode()
            number = payload["number"]
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LogError("not a receipt with its proof: it needs number, receipt, proof and checkpoint") from None
        return cls(number, receipt, proof, checkpoint)

    def check(self, device: VerifierKey, nonce: str | None = None) -> dict[str, Any]:
        """Check that the device signed the receipt and that its log contains it, and return its contents.

        Parameters
        ----------
        device
            The device's verifier key, as `cause log` prints it.
        nonce
            The nonce that was sent with the request; None is not compared.

        Raises
        ------
        LogError
            If the signature or the proof does not hold, or the receipt answers a request with another nonce or none.
        """
        body: dict[str, Any] = json.loads(open_note(self.receipt, [device]))
        head = open_checkpoint(self.checkpoint, device)
        leaf = entry_of(body) or leaf_hash(self.receipt)
        verify_inclusion(leaf, self.number, head.size, self.proof, head.root)
        if nonce is not None and body.get("nonce_sha256") != nonce_digest(nonce):
            raise LogError("the receipt does not answer the request that this nonce was sent with")
        return body


_SIGNED = {"effect": 1, "repair": 2}
"""The column `requests.signed`, by the last receipt of a request that is in the log."""


class TrainingContext(NamedTuple):
    """What a receipt says of the device: its memory, and what its sub-models were trained with."""

    memory: Memory
    recipe: bytes
    """The digest of the learner's recipe."""
    environment: str


class Receipts(TransparencyLog):
    """The receipts of a home: its log, and how entries are made and checked.

    Parameters
    ----------
    store
        Keys, and what destroys them: no receipt may say so before it is done.
    database
        The ledger.
    ledger, shelf
        The retained samples, and the stored sub-models.
    clock
        Returns the time.
    trained
        Returns what the device trains with; call it after the device has loaded the home.
    leases
        Knows which shards were sent to other machines.
    """

    def __init__(
        self,
        store: SealedStore,
        database: Database,
        ledger: "HomeLedger",
        shelf: HomeShelf,
        clock: Callable[[], float],
        trained: Callable[[], TrainingContext],
        leases: Leases,
    ) -> None:
        super().__init__(database, lambda: store.vault.key(DEVICE_KEY))
        self._store, self._queries, self._ledger, self._shelf = store, Queries(database), ledger, shelf
        self._clock, self._trained, self._leases = clock, trained, leases

    # Collecting the contents of a receipt

    def evidence(self, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> Evidence:
        """Collect the contents of a receipt; call it after ledger and memory changed, and before keys are destroyed.

        Parameters
        ----------
        plans
            What the deletion touches, by shard.
        dropped
            The sub-models that the memory dropped.
        """
        memory, shards, evidence = self._trained().memory, [], Evidence({})
        for plan in plans:
            key, name = os.urandom(32), os.urandom(16)
            evidence.keys[name], evidence.shards[plan.shard] = key, name
            before = self._queries.manifest_key(plan.shard)
            if before is not None:
                evidence.old.append(before)
            head = memory.head(plan.shard)
            shards.append(
                ({"cluster": True} if self._leases.was_sent(plan.shard) else {})
                | {
                    "shard": plan.shard,
                    "samples": plan.forgotten,
                    "restart": None if plan.restart is None else list(plan.restart),
                    "replay": [list(segment) for segment in plan.replay],
                    "destroyed": [
                        self._destroyed(sub_model, released)
                        for sub_model in dropped
                        if sub_model.shard == plan.shard
                        and (released := self._shelf.name_of_released(sub_model)) is not None
                    ],
                    **self._data(plan.shard, key),
                    "serving": None if head is None else self._sub_model(head.key),
                }
            )
        evidence.covered = {
            "shards": [plan.shard for plan in plans],
            "rsn": sum(plan.rsn for plan in plans),
            "round": self._ledger.round,
            "touched": shards,
        }
        longest = self._leases.longest()
        if longest is not None:
            evidence.covered["cluster"] = {"lease_s": longest, "outside": OUTSIDE}
        return evidence

    def replace_keys(self, request: str, evidence: Evidence) -> None:
        """Replace the names of the keys that commit to the touched shards' data; call it in a transaction."""
        self._queries.replace_manifest_keys(evidence.old, request, evidence.shards.items())

    def _data(self, shard: int, key: bytes) -> dict[str, str]:
        """Return the commitment to a shard's data, and its form; nothing if samples that are needed for it are damaged.

        The identity of an additive device's state is a hash of all samples in it, so that no other round is looked at.
        """
        head, last = self._trained().memory.head(shard), self._ledger.lineage(shard).last
        if head is not None and head.key == last and SetHash.is_value(head.identity):
            return {"data": commitment(key, head.identity).hex(), "data_form": SET_HASH}
        try:
            return {"data": commitment(key, self.manifest(shard, self._ledger.round)).hex()}
        except HomeError:
            return {}

    def manifest(self, shard: int, upto: int) -> bytes:
        """Return the digest of the ids of a shard's retained samples of all rounds up to `upto`."""
        lineage = self._ledger.lineage(shard)
        manifests = [segment.manifest for segment in lineage if segment.key.round <= upto]
        return hashlib.sha256(pack("manifest") + pack_digests(manifests)).digest()

    def _sub_model(self, key: SegmentKey) -> dict[str, Any]:
        name, trained = self._shelf.name(key), self._trained()
        sub_model = trained.memory[key]
        committed = self._store.vault.commit(name, sub_model.identity)
        described = {"sub_model": list(key), "stored_as": name.hex(), "commitment": committed.hex()}
        if sub_model.environment != trained.environment:  # the receipt names that of the device
            described["environment"] = sub_model.environment
        return described

    def _destroyed(self, key: SegmentKey, name: bytes) -> dict[str, Any]:
        vault = self._store.vault
        committed = vault.commit(name, open_identity(vault, name, self._queries.sealed_identity(name)))
        return {"sub_model": list(key), "commitment": committed.hex()}

    # The log

    def issue(self) -> None:
        """Sign and log a receipt for each request that took effect or was repaired and has none yet.

        Raises
        ------
        HomeError, VaultError
            If keys cannot be destroyed or the log cannot be written. The next call tries again.
        """
        unsigned = self._queries.unsigned()
        if not unsigned:
            return
        if any(kind == "effect" for _, kind in unsigned):
            self._store.destroy()  # an error may have left keys, while a training went on to its end
        with self._database.transaction():
            self._sign(unsigned)

    def sign_repairs(self) -> None:
        """Sign and log the receipts of repairs, of requests whose effect has a receipt; call it in a transaction."""
        unsigned = self._queries.unsigned()
        without = {request for request, kind in unsigned if kind == "effect"}  # their keys may not be destroyed yet
        self._sign([(request, kind) for request, kind in unsigned if request not in without])

    def _sign(self, unsigned: Sequence[tuple[str, str]]) -> None:
        if not unsigned:
            return
        # keys that a crash left were destroyed by this opening, so not before now
        self._queries.mark_destroyed((request for request, _ in unsigned), self._clock())
        self.append((request, kind, self._body(request, kind)) for request, kind in unsigned)
        self._queries.mark_signed([(request, _SIGNED[kind]) for request, kind in unsigned])

    def _body(self, request: str, kind: str) -> dict[str, Any]:
        served, trained = self._queries.served(request), self._trained()
        covered = json.loads(served.covered)
        body: dict[str, Any] = {
            "format": FORMAT,
            "kind": kind,
            "request": request,
            "served_with": served.batch,
            "received": time_text(served.received),
            "deadline": time_text(served.deadline),
            "released": time_text(served.effective),
            "in_effect": time_text(served.destroyed),
            "samples": served.samples,
            "round": covered["round"],
            "recipe": trained.recipe.hex(),
            "environment": trained.environment,
            "software": f"cause {__version__}",
            "salt": os.urandom(SALT_BYTES).hex(),
        }
        if served.nonce is not None:
            body["nonce_sha256"] = served.nonce
        if "cluster" in covered:
            body["cluster"] = covered["cluster"]
        if kind == "effect":
            touched, exports = covered["touched"], covered["exports"]
            return body | {"shards": touched, "tainted_exports": exports, "rsn_planned": covered["rsn"]}
        assert served.repaired is not None
        heads = {shard: trained.memory.head(shard) for shard in covered["shards"]}
        return body | {
            "repaired": time_text(served.repaired),
            "shards": [
                {"shard": shard, "serving": None if head is None else self._sub_model(head.key)}
                for shard, head in heads.items()
            ],
        }

    def listed(self, first: int = 0, most: int | None = None) -> list[dict[str, Any]]:
        """Return the contents of the receipts from number `first` on, oldest first; LogError if one is damaged."""
        rows = self.table.bodies_from(first, most)
        verifiers = [self.verifier] if rows else []
        return [{"number": number, **json.loads(open_note(body, verifiers))} for number, body in rows]

    def bundle(self, number: int, *, own: bool = False) -> Bundle:
        """Return a receipt by its number in the log, with its proof; LogError if there is none.

        Parameters
        ----------
        number
            The receipt's place in the log.
        own
            Return the form for the user of the request, which says nothing of other users' data: see
            `cause.device.receipts.own_form`.
        """
        entry, size = self.entry(number), self.size
        note = own_form(entry.body, self._signer()) if own else entry.body
        return Bundle(number, note, tuple(inclusion_proof(self, number, size)), self.checkpoint())

    def numbers(self, request: str) -> list[int]:
        """Return the numbers of a request's receipts, in order."""
        return self.table.numbers(request)

    # Checking a receipt against the home

    def verified_body(self, receipt: int | str | Bundle) -> dict[str, Any]:
        """Check a receipt's signature and its place in this log, and return its contents.

        Parameters
        ----------
        receipt
            Its number, the id of its request (its last receipt is taken), or a bundle.

        Raises
        ------
        LogError
            If there is none, or if its signature or its proof does not hold.
        """
        if isinstance(receipt, str):
            numbers = self.numbers(receipt)
            if not numbers:
                raise LogError(f"there is no receipt for a request {receipt[:80]!r}")
            receipt = numbers[-1]
        if not isinstance(receipt, int | Bundle):
            raise LogError(f"a receipt is named by its number or its request's id, not by {receipt!r}")
        bundle = receipt if isinstance(receipt, Bundle) else self.bundle(receipt)
        body = bundle.check(self.verifier)
        head = open_checkpoint(bundle.checkpoint, self.verifier)
        if head.size > self.size or head.root != root_at(self, head.size):
            raise LogError(
                f"the receipt's checkpoint of {head.size} entries is not one of this log: it was rewritten"
                f"{self.restored_before(head.size)}"
            )
        if entry_of(body) is not None:  # the form for users: the log has the whole receipt
            body = json.loads(open_note(self.entry(bundle.number).body, [self.verifier]))
        return body

    def check_commitments(self, body: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Check the commitments of a receipt against the home.

        Parameters
        ----------
        body
            The contents of the receipt, as `verified_body` returns them.

        Returns
        -------
        tuple
            Which commitments do not hold, and which cannot be checked any more because what they commit to has changed
            and their keys are destroyed.
        """
        wrong, superseded = [], []
        for shard in body["shards"]:
            if "data" in shard:
                state = self._data_holds(body, shard)
                name = f"data of shard {shard['shard']}"
                wrong += [name] * (state is False)
                superseded += [name] * (state is None)
            if shard["serving"] is not None:
                state = self._sub_model_holds(shard["serving"])
                name = f"sub-model {SegmentKey(*shard['serving']['sub_model'])}"
                wrong += [name] * (state is False)
                superseded += [name] * (state is None)
        return wrong, superseded

    def _data_holds(self, body: dict[str, Any], shard: dict[str, Any]) -> bool | None:
        """Return whether the commitment to a shard's data holds; None if its key is destroyed."""
        name = self._queries.manifest_key(shard["shard"], body["served_with"])
        if name is None:
            return None
        if shard.get("data_form") == SET_HASH:
            held = (s for s in self._ledger.lineage(shard["shard"]) if s.key.round <= body["round"])
            data = hash_of(bytes.fromhex(body["recipe"]), held).value
        else:
            data = self.manifest(shard["shard"], body["round"])
        expected = self._store.vault.commit(name, data)
        return bool(expected.hex() == shard["data"])

    def _sub_model_holds(self, serving: dict[str, Any]) -> bool | None:
        """Return whether the commitment to a sub-model holds; None if it was deleted or trained again since."""
        key = SegmentKey(*serving["sub_model"])
        if key not in self._shelf.names or self._shelf.names[key].hex() != serving["stored_as"]:
            return None
        return bool(self._sub_model(key)["commitment"] == serving["commitment"])
