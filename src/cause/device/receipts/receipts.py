"""Receipts: what happened to each request, signed by the device and kept in an append-only log.

A receipt holds commitments, never a digest of data or weights: whoever holds the retained data could otherwise replay
with a guessed sample and compare. A sub-model's commitment is made with its own key, a shard's data with a key that
lives until the shard's data changes; when those are destroyed, the commitment says nothing to anybody any more.
"""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cause.common.hashing import digest
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
from cause.device.receipts.log import Log, time_text
from cause.device.store.layout import DEVICE_KEY
from cause.device.store.seals import open_identity
from cause.device.vault import commitment
from cause.engine.plan import ShardPlan
from cause.engine.samples import SegmentKey
from cause.errors import LogError

if TYPE_CHECKING:
    from cause.device.store.home import Home

FORMAT = 1
NONCE = b"cause: nonce of a request\0"
"""Comes before a nonce when it is hashed."""


def nonce_digest(nonce: str | None) -> str | None:
    """What a receipt says of a nonce, `nonce_sha256`; None without one.

    >>> nonce_digest("a random text")
    '974ee8eeacbe010d2b34928bf30ea8205d6d6269a9e49019a265c5dfdad0142e'
    """
    return None if nonce is None else hashlib.sha256(NONCE + nonce.encode()).hexdigest()


@dataclass
class Evidence:
    """What a receipt will say, collected while the keys that are about to go are still there."""

    covered: dict[str, Any]
    keys: dict[bytes, bytes] = field(default_factory=dict)  # new ones, for the shards' data
    shards: dict[int, bytes] = field(default_factory=dict)  # and whose they are
    old: list[bytes] = field(default_factory=list)  # those of earlier receipts, which go


@dataclass(frozen=True)
class Bundle:
    """A receipt with all that is needed to check it away from the device."""

    number: int
    receipt: bytes
    proof: tuple[bytes, ...]
    checkpoint: bytes

    def json(self) -> dict[str, Any]:
        """As plain data."""
        proof = [base64.b64encode(each).decode() for each in self.proof]
        return {
            "number": self.number,
            "receipt": self.receipt.decode(),
            "proof": proof,
            "checkpoint": self.checkpoint.decode(),
        }

    @classmethod
    def parse(cls, told: Any) -> "Bundle":
        """From plain data that may come from anywhere."""
        try:
            proof = tuple(base64.b64decode(each, validate=True) for each in told["proof"])
            receipt, checkpoint = told["receipt"].encode(), told["checkpoint"].encode()
            number = told["number"]
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LogError("not a receipt with its proof: it needs number, receipt, proof and checkpoint") from None
        return cls(number, receipt, proof, checkpoint)

    def check(self, device: VerifierKey, nonce: str | None = None) -> dict[str, Any]:
        """What the receipt says, if the device signed it and its log contains it.

        Parameters
        ----------
        device
            The device's verifier key, as `cause log` prints it.
        nonce
            What was sent with the request; None is not compared.

        Raises
        ------
        LogError
            If the signature or the proof does not hold, or the receipt answers a request with another nonce or none.
        """
        told: dict[str, Any] = json.loads(open_note(self.receipt, [device]))
        head = open_checkpoint(self.checkpoint, device)
        verify_inclusion(leaf_hash(self.receipt), self.number, head.size, self.proof, head.root)
        if nonce is not None and told.get("nonce_sha256") != nonce_digest(nonce):
            raise LogError("the receipt does not answer the request that this nonce was sent with")
        return told


_SIGNED = {"effect": 1, "repair": 2}
"""`requests.signed`: which receipts of a request are in the log."""


class Receipts(Log):
    """The receipts of a home, which are its log."""

    def __init__(self, home: "Home") -> None:
        super().__init__(home.database, lambda: home.vault.key(DEVICE_KEY))
        self._home = home

    # What is collected while a request takes effect

    def evidence(self, plans: Sequence[ShardPlan], dropped: Sequence[SegmentKey]) -> Evidence:
        """Called when ledger and memory hold what is left, and the keys of what goes are still there."""
        home = self._home
        shards, evidence = [], Evidence({})
        for plan in plans:
            key, name = os.urandom(32), os.urandom(16)
            evidence.keys[name], evidence.shards[plan.shard] = key, name
            before = home.queries.manifest_key(plan.shard)
            if before is not None:
                evidence.old.append(before)
            head = home.memory.head(plan.shard)
            shards.append(
                {
                    "shard": plan.shard,
                    "samples": plan.forgotten,
                    "restart": None if plan.restart is None else list(plan.restart),
                    "replay": [list(each) for each in plan.replay],
                    "destroyed": [
                        self._destroyed(sub_model, home.shelf.name_of_released(sub_model))
                        for sub_model in dropped
                        if sub_model.shard == plan.shard
                    ],
                    "data": commitment(key, self.manifest(plan.shard, home.ledger.round)).hex(),
                    "serving": None if head is None else self._sub_model(head.key),
                }
            )
        evidence.covered = {
            "shards": [plan.shard for plan in plans],
            "rsn": sum(plan.rsn for plan in plans),
            "round": home.ledger.round,
            "touched": shards,
        }
        return evidence

    def replace_keys(self, request: str, evidence: Evidence) -> None:
        """In a transaction: the keys for the touched shards' data are these now."""
        self._home.queries.replace_manifest_keys(evidence.old, request, evidence.shards.items())

    def manifest(self, shard: int, upto: int) -> bytes:
        """Digest of the ids of a shard's retained samples, of rounds up to one."""
        lineage = self._home.ledger.lineage(shard)
        return digest("manifest", *(segment.manifest for segment in lineage if segment.key.round <= upto))

    def _sub_model(self, key: SegmentKey) -> dict[str, Any]:
        home = self._home
        name = home.shelf.names[key]
        committed = home.vault.commit(name, home.memory[key].identity)
        return {"sub_model": list(key), "stored_as": name.hex(), "commitment": committed.hex()}

    def _destroyed(self, key: SegmentKey, name: bytes) -> dict[str, Any]:
        vault = self._home.vault
        committed = vault.commit(name, open_identity(vault, name, self._home.queries.sealed_identity(name)))
        return {"sub_model": list(key), "commitment": committed.hex()}

    # The log

    def issue(self) -> None:
        """Sign and log whatever took effect or was repaired and has no receipt yet."""
        queries = self._home.queries
        unsigned = queries.unsigned()
        if not unsigned:
            return
        if any(kind == "effect" for _, kind in unsigned):
            self._home.destroy()  # what an error spared, while a training that had begun before went on to its end
        now = self._home.clock()
        with self._home.database.transaction():
            # keys that a crash spared were destroyed by this opening, and so only now
            queries.mark_destroyed((request for request, _ in unsigned), now)
            self.append((request, kind, self._body(request, kind)) for request, kind in unsigned)
            queries.mark_signed([(request, _SIGNED[kind]) for request, kind in unsigned])

    def _body(self, request: str, kind: str) -> dict[str, Any]:
        served = self._home.queries.served(request)
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
            "recipe": self._home.recipe.hex(),
            "environment": self._home.environment,
            "software": f"cause {__version__}",
        }
        if served.nonce is not None:
            body["nonce_sha256"] = served.nonce
        if kind == "effect":
            touched, exports = covered["touched"], covered["exports"]
            return body | {"shards": touched, "tainted_exports": exports, "rsn_planned": covered["rsn"]}
        assert served.repaired is not None
        heads = {shard: self._home.memory.head(shard) for shard in covered["shards"]}
        return body | {
            "repaired": time_text(served.repaired),
            "shards": [
                {"shard": shard, "serving": None if head is None else self._sub_model(head.key)}
                for shard, head in heads.items()
            ],
        }

    def listed(self, first: int = 0, most: int | None = None) -> list[dict[str, Any]]:
        """Receipts as they read, oldest first: those from a number on, at most so many."""
        rows = self.table.bodies_from(first, most)
        verifiers = [self.verifier] if rows else []
        return [{"number": number, **json.loads(open_note(body, verifiers))} for number, body in rows]

    def bundle(self, number: int) -> Bundle:
        """A receipt by its number in the log, with its proof."""
        entry, size = self.entry(number), self.size
        return Bundle(number, entry.body, tuple(inclusion_proof(self, number, size)), self.checkpoint())

    def numbers(self, request: str) -> list[int]:
        """The receipts of a request."""
        return self.table.numbers(request)

    # Checking a receipt against the home

    def checked(self, receipt: int | str | Bundle) -> dict[str, Any]:
        """What a receipt says, once its signature and its place in the log are found to be right."""
        if isinstance(receipt, str):
            numbers = self.numbers(receipt)
            if not numbers:
                raise LogError(f"there is no receipt for a request {receipt[:80]!r}")
            receipt = numbers[-1]
        if not isinstance(receipt, int | Bundle):
            raise LogError(f"a receipt is named by its number or its request's id, not by {receipt!r}")
        bundle = receipt if isinstance(receipt, Bundle) else self.bundle(receipt)
        told = bundle.check(self.verifier)
        head = open_checkpoint(bundle.checkpoint, self.verifier)
        if head.size > self.size or head.root != root_at(self, head.size):
            raise LogError(
                f"the receipt's checkpoint of {head.size} entries is not one of this log: it was rewritten"
                f"{self.restored_before(head.size)}"
            )
        return told

    def held(self, told: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Which commitments of a receipt do not hold, and which cannot be checked any more: what they commit to has
        changed since, and their keys are destroyed."""
        wrong, superseded = [], []
        for shard in told["shards"]:
            if "data" in shard:
                state = self._data_holds(told, shard)
                name = f"data of shard {shard['shard']}"
                wrong += [name] * (state is False)
                superseded += [name] * (state is None)
            if shard["serving"] is not None:
                state = self._sub_model_holds(shard["serving"])
                name = f"sub-model {SegmentKey(*shard['serving']['sub_model'])}"
                wrong += [name] * (state is False)
                superseded += [name] * (state is None)
        return wrong, superseded

    def _data_holds(self, told: dict[str, Any], shard: dict[str, Any]) -> bool | None:
        home = self._home
        name = home.queries.manifest_key(shard["shard"], told["served_with"])
        if name is None:
            return None
        expected = home.vault.commit(name, self.manifest(shard["shard"], told["round"]))
        return bool(expected.hex() == shard["data"])

    def _sub_model_holds(self, told: dict[str, Any]) -> bool | None:
        home, key = self._home, SegmentKey(*told["sub_model"])
        if key not in home.shelf.names or home.shelf.names[key].hex() != told["stored_as"]:
            return None  # gone, or trained again since
        return bool(self._sub_model(key)["commitment"] == told["commitment"])
