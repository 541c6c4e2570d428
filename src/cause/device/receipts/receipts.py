"""Receipts: what happened to each request, signed by the device and kept in an append-only log.

A receipt holds commitments, never a digest of data or weights: with a digest, anyone who has the retained data could
replay with a guessed sample and compare. A sub-model is committed to with its own key, a shard's data with a key that
is kept until the shard's data changes; once these keys are destroyed, the commitments reveal nothing.
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
"""The prefix of a nonce when it is hashed."""


def nonce_digest(nonce: str | None) -> str | None:
    """The hash of a nonce that receipts contain as `nonce_sha256`; None without a nonce.

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
        """The bundle as a dict for JSON; `parse` reads it."""
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
        verify_inclusion(leaf_hash(self.receipt), self.number, head.size, self.proof, head.root)
        if nonce is not None and body.get("nonce_sha256") != nonce_digest(nonce):
            raise LogError("the receipt does not answer the request that this nonce was sent with")
        return body


_SIGNED = {"effect": 1, "repair": 2}
"""The column `requests.signed`, by the last receipt of a request that is in the log."""


class Receipts(Log):
    """The receipts of a home: its log, and how entries are made and checked."""

    def __init__(self, home: "Home") -> None:
        super().__init__(home.database, lambda: home.vault.key(DEVICE_KEY))
        self._home = home

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
                    "replay": [list(segment) for segment in plan.replay],
                    "destroyed": [
                        self._destroyed(sub_model, released)
                        for sub_model in dropped
                        if sub_model.shard == plan.shard
                        and (released := home.shelf.name_of_released(sub_model)) is not None
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
        """Replace the names of the keys that commit to the touched shards' data; call it in a transaction."""
        self._home.queries.replace_manifest_keys(evidence.old, request, evidence.shards.items())

    def manifest(self, shard: int, upto: int) -> bytes:
        """The digest of the ids of a shard's retained samples of all rounds up to `upto`."""
        lineage = self._home.ledger.lineage(shard)
        return digest("manifest", *(segment.manifest for segment in lineage if segment.key.round <= upto))

    def _sub_model(self, key: SegmentKey) -> dict[str, Any]:
        home = self._home
        name = home.shelf.name(key)
        committed = home.vault.commit(name, home.memory[key].identity)
        return {"sub_model": list(key), "stored_as": name.hex(), "commitment": committed.hex()}

    def _destroyed(self, key: SegmentKey, name: bytes) -> dict[str, Any]:
        vault = self._home.vault
        committed = vault.commit(name, open_identity(vault, name, self._home.queries.sealed_identity(name)))
        return {"sub_model": list(key), "commitment": committed.hex()}

    # The log

    def issue(self) -> None:
        """Sign and log a receipt for each request that took effect or was repaired and has none yet.

        Raises
        ------
        HomeError, VaultError
            If keys cannot be destroyed or the log cannot be written. The next call tries again.
        """
        queries = self._home.queries
        unsigned = queries.unsigned()
        if not unsigned:
            return
        if any(kind == "effect" for _, kind in unsigned):
            self._home.destroy()  # an error may have left keys, while a training went on to its end
        now = self._home.clock()
        with self._home.database.transaction():
            # keys that a crash left were destroyed by this opening, so not before now
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
        """The contents of the receipts from number `first` on, oldest first, at most `most`; LogError if one is
        damaged."""
        rows = self.table.bodies_from(first, most)
        verifiers = [self.verifier] if rows else []
        return [{"number": number, **json.loads(open_note(body, verifiers))} for number, body in rows]

    def bundle(self, number: int) -> Bundle:
        """A receipt by its number in the log, with its proof; LogError if there is none."""
        entry, size = self.entry(number), self.size
        return Bundle(number, entry.body, tuple(inclusion_proof(self, number, size)), self.checkpoint())

    def numbers(self, request: str) -> list[int]:
        """The numbers of a request's receipts, in order."""
        return self.table.numbers(request)

    # Checking a receipt against the home

    def checked(self, receipt: int | str | Bundle) -> dict[str, Any]:
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
        return body

    def held(self, body: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Check the commitments of a receipt against the home.

        Parameters
        ----------
        body
            The contents of the receipt, as `checked` returns them.

        Returns
        -------
        Which commitments do not hold, and which cannot be checked any more because what they commit to has changed and
        their keys are destroyed.
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
        """Whether the commitment to a shard's data holds; None if its key is destroyed."""
        home = self._home
        name = home.queries.manifest_key(shard["shard"], body["served_with"])
        if name is None:
            return None
        expected = home.vault.commit(name, self.manifest(shard["shard"], body["round"]))
        return bool(expected.hex() == shard["data"])

    def _sub_model_holds(self, serving: dict[str, Any]) -> bool | None:
        """Whether the commitment to a sub-model holds; None if it was deleted or trained again since."""
        home, key = self._home, SegmentKey(*serving["sub_model"])
        if key not in home.shelf.names or home.shelf.names[key].hex() != serving["stored_as"]:
            return None
        return bool(self._sub_model(key)["commitment"] == serving["commitment"])
