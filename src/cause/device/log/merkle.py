"""The Merkle tree of RFC 6962: roots, proofs, and their verification.

A complete subtree of 2^level leaves is a *node* (level, index): it covers the leaves from index·2^level on and never
changes once its leaves are there. A log stores its nodes (two hashes an entry) in whatever it likes, a table say, and
hands them out through `NodeReader`; roots and proofs of every size the log ever had follow from them. Appending needs
only the `Frontier`, the right edge of the tree.

A root says nothing about the tree's size: take both from one signed checkpoint when you verify a proof.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cause.errors import LogError

HASH_BYTES = 32
MAX_SIZE = 2**63 - 1  # what a signed 64-bit column of a table holds


@dataclass(frozen=True, slots=True)
class Node:
    """A complete subtree: 2^level leaves from index·2^level on, and their hash."""

    level: int
    index: int
    hash: bytes


class NodeReader(Protocol):
    """Where a log's complete subtrees are stored."""

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a stored node."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry. Its prefix differs from that of nodes, so no leaf can be taken for a node."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two neighbours."""
    return hashlib.sha256(b"\x01" + left + right).digest()


EMPTY_ROOT = hashlib.sha256().digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """A log's size and the hashes of the complete subtrees it consists of, the largest first.

    >>> nodes = {}
    >>> frontier = Frontier()
    >>> for entry in (b"a", b"b", b"c"):
    ...     frontier, added = frontier.append(leaf_hash(entry))
    ...     nodes.update({(node.level, node.index): node.hash for node in added})
    >>> frontier.size, sorted(nodes)
    (3, [(0, 0), (0, 1), (0, 2), (1, 0)])
    >>> frontier.root == node_hash(nodes[1, 0], nodes[0, 2])
    True
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MAX_SIZE or len(self.peaks) != self.size.bit_count():
            raise LogError(f"a log of {self.size} entries does not have {len(self.peaks)} peaks")

    @classmethod
    def of(cls, nodes: NodeReader, size: int) -> "Frontier":
        """Return the frontier of a stored log at a size."""
        _check_size(size)
        return cls(size, tuple(nodes.node(level, index) for level, index in _cover(0, size)))

    def append(self, leaf: bytes) -> tuple["Frontier", list[Node]]:
        """Return the frontier with one more leaf, and the nodes that it completes, the leaf itself first."""
        peaks = list(self.peaks)
        added = [Node(0, self.size, leaf)]
        while self.size >> added[-1].level & 1:
            right = added[-1]
            added.append(Node(right.level + 1, right.index >> 1, node_hash(peaks.pop(), right.hash)))
        return Frontier(self.size + 1, (*peaks, added[-1].hash)), added

    @property
    def root(self) -> bytes:
        """Return the root hash of the tree."""
        return _fold(self.peaks) if self.peaks else EMPTY_ROOT


def root_at(nodes: NodeReader, size: int) -> bytes:
    """Return the root hash of a stored log at a size."""
    return Frontier.of(nodes, size).root


def inclusion_proof(nodes: NodeReader, index: int, size: int) -> list[bytes]:
    """Return the hashes that lead from a leaf to the root of the tree of that size."""
    _check_size(size)
    if not 0 <= index < size:
        raise LogError(f"a log of {size} entries has no entry {index}")
    proof = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range(nodes, middle, end))
            end = middle
        else:
            proof.append(_range(nodes, start, middle))
            start = middle
    return proof[::-1]


def consistency_proof(nodes: NodeReader, old_size: int, size: int) -> list[bytes]:
    """Return the hashes that prove that the tree of the old size is the beginning of the new one."""
    _check_size(size)
    if not 0 <= old_size <= size:
        raise LogError(f"a log of {size} entries was never one of {old_size}")
    if old_size in (0, size):
        return []
    proof = []
    start, end = 0, size
    while end != old_size:
        middle = start + _split(end - start)
        if old_size <= middle:
            proof.append(_range(nodes, middle, end))
            end = middle
        else:
            proof.append(_range(nodes, start, middle))
            start = middle
    if start:  # otherwise this is the old root, which the verifier has
        proof.append(_range(nodes, start, end))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise a `LogError` unless the proof shows the leaf at that index of the tree with that size and root.

    Parameters
    ----------
    leaf
        The hash of the entry.
    index, size
        Its number, and the size of the tree.
    proof
        The hashes, as `inclusion_proof` returns them.
    root
        The root of the tree.
    """
    _check_size(size)
    _check_hashes(leaf, root, *proof)
    if not 0 <= index < size:
        raise LogError(f"a log of {size} entries has no entry {index}")
    # Below the level where the path meets the right edge every step has a neighbour; above it only left ones.
    inner = (index ^ (size - 1)).bit_length()
    border = (index >> inner).bit_count()
    if len(proof) != inner + border:
        raise LogError(f"inclusion proof with {len(proof)} hashes, expected {inner + border}: it is for another tree")
    computed = leaf
    for level, neighbour in enumerate(proof[:inner]):
        computed = node_hash(neighbour, computed) if index >> level & 1 else node_hash(computed, neighbour)
    for neighbour in proof[inner:]:
        computed = node_hash(neighbour, computed)
    if computed != root:
        raise LogError(f"inclusion proof of entry {index} leads to another root: entry, proof or root was changed")


def verify_consistency(old_size: int, size: int, proof: Sequence[bytes], old_root: bytes, root: bytes) -> None:
    """Raise a `LogError` unless the proof shows that the old tree is the beginning of the new one.

    Parameters
    ----------
    old_size, size
        The sizes of the old and the new tree.
    proof
        The hashes, as `consistency_proof` returns them.
    old_root, root
        The roots of both.
    """
    _check_size(size)
    _check_hashes(old_root, root, *proof)
    if not 0 <= old_size <= size:
        raise LogError(f"a log of {size} entries was never one of {old_size}")
    if old_size in (0, size):
        if proof:
            raise LogError(f"consistency proof with {len(proof)} hashes, expected none")
        if (old_size == size and old_root != root) or (old_size == 0 and old_root != EMPTY_ROOT):
            raise LogError(f"two roots for a log of {old_size} entries: the log was rewritten")
        return
    # The walk starts at the largest complete subtree that ends where the old tree does.
    shift = (old_size & -old_size).bit_length() - 1
    last = old_size - 1
    inner = (last ^ (size - 1)).bit_length() - shift
    border = (last >> (inner + shift)).bit_count()
    steps = list(proof)
    start = old_root if old_size == 1 << shift else steps.pop(0) if steps else b""
    if len(steps) != inner + border:
        raise LogError(f"consistency proof with {len(proof)} hashes does not fit sizes {old_size} and {size}")
    old_computed = computed = start
    for level, neighbour in enumerate(steps[:inner]):
        if last >> shift >> level & 1:
            old_computed, computed = node_hash(neighbour, old_computed), node_hash(neighbour, computed)
        else:
            computed = node_hash(computed, neighbour)
    for neighbour in steps[inner:]:
        old_computed, computed = node_hash(neighbour, old_computed), node_hash(neighbour, computed)
    if old_computed != old_root or computed != root:
        raise LogError(f"the log of {size} entries does not begin with the one of {old_size}: it was rewritten")


def _check_size(size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        raise LogError(f"a log cannot have {size} entries, only 0 to {MAX_SIZE}")


def _check_hashes(*hashes: bytes) -> None:
    for value in hashes:
        if len(value) != HASH_BYTES:
            raise LogError(f"a hash has {HASH_BYTES} bytes, not {len(value)}")


def _split(width: int) -> int:
    """Return the largest power of two smaller than a width of at least two."""
    return 1 << ((width - 1).bit_length() - 1)


def _cover(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the nodes that a range of leaves consists of; it starts at a multiple of its first node's width."""
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def _range(nodes: NodeReader, start: int, end: int) -> bytes:
    return _fold([nodes.node(level, index) for level, index in _cover(start, end)])


def _fold(hashes: Sequence[bytes]) -> bytes:
    computed = hashes[-1]
    for left in reversed(hashes[:-1]):
        computed = node_hash(left, computed)
    return computed
