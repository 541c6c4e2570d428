"""Logs for tests: nodes in a dictionary, nodes in SQLite, and the definitions of RFC 6962 word for word."""

import hashlib
import sqlite3

from cause.device.log import Frontier, leaf_hash


class DictNodes:
    def __init__(self):
        self.hashes = {}
        self.reads = 0

    def store(self, nodes):
        self.hashes.update({(node.level, node.index): node.hash for node in nodes})

    def node(self, level, index):
        self.reads += 1
        return self.hashes[level, index]


class TableNodes:
    def __init__(self):
        self.table = sqlite3.connect(":memory:")
        self.table.execute("create table node (level, position, hash, primary key (level, position)) without rowid")

    def store(self, nodes):
        self.table.executemany("insert into node values (?, ?, ?)", [(n.level, n.index, n.hash) for n in nodes])

    def node(self, level, index):
        query = "select hash from node where level = ? and position = ?"
        return self.table.execute(query, (level, index)).fetchone()[0]

    def close(self):
        self.table.close()


def log_of(entries, nodes):
    frontier = Frontier()
    for entry in entries:
        frontier, added = frontier.append(leaf_hash(entry))
        nodes.store(added)
    return frontier


def split(n):
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(entries):
    """RFC 6962, 2.1"""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return hashlib.sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m, entries):
    """RFC 6962, 2.1.1"""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


def proof(m, entries):
    """RFC 6962, 2.1.2"""
    return [] if m in (0, len(entries)) else subproof(m, entries, True)


def subproof(m, entries, complete):
    if m == len(entries):
        return [] if complete else [mth(entries)]
    k = split(len(entries))
    if m <= k:
        return [*subproof(m, entries[:k], complete), mth(entries[k:])]
    return [*subproof(m - k, entries[k:], False), mth(entries[:k])]


def sides(m, n):
    """On which side the neighbours of the path from leaf m to the root of n leaves lie."""
    if n == 1:
        return ""
    k = split(n)
    return sides(m, k) + "r" if m < k else sides(m - k, n - k) + "l"
