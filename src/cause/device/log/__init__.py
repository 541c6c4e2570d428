"""A transparency log: an append-only Merkle tree (RFC 6962) whose heads are signed checkpoints (C2SP).

With a checkpoint, a client can verify later, from two short proofs, that an entry is in the log and that no entry was
changed or removed since that checkpoint.
"""

from cause.device.log.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from cause.device.log.merkle import (
    Frontier,
    Node,
    NodeReader,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_at,
    verify_consistency,
    verify_inclusion,
)
from cause.device.log.note import SigningKey, VerifierKey, open_note, sign_note

__all__ = [
    "Checkpoint",
    "Frontier",
    "Node",
    "NodeReader",
    "SigningKey",
    "VerifierKey",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "open_checkpoint",
    "open_note",
    "root_at",
    "sign_checkpoint",
    "sign_note",
    "verify_consistency",
    "verify_inclusion",
]
