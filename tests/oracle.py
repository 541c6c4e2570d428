"""A deliberately naive reference simulator of CAUSE (from its specification, sharing no code with it).

It is a differential-test oracle: no caches, everything is recomputed from the retained
samples and the slots each time. Partition `given`, controller off, one slice a round,
all sub-models of one size (memory is a number of slots).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Sample = tuple[str, int, int]  # (user, round, position)

POLICIES = ("fibor", "fifo", "static", "latest", "unlimited", "cost")
REQUESTS = ("one-by-one", "coalesced")


@dataclass(frozen=True)
class SubModel:
    """The state of a shard after a round, with every sample that its chain was trained on."""

    shard: int
    round: int
    seen: frozenset[Sample]


def fibonacci(index: int) -> int:
    """f = 0, 1, 2, 3, 5, 8, 13, ... (no second 1)."""
    a, b = 0, 1
    for _ in range(index):
        a, b = b, a + b if a else 2
    return a


@dataclass
class World:
    """Retained samples, slots and the policy's indexes. Slots are numbered 1..N; slot i is slots[i - 1]."""

    policy: str
    capacity: int | None  # None: never full
    rehearsal: float = 0.0
    shard_of: dict[Sample, int] = field(default_factory=dict)  # the retained samples
    slots: list[SubModel | None] = field(default_factory=list)
    i_replace: int = 1
    i_fibor: int = 0
    pointer: int = 1  # fifo

    def __post_init__(self) -> None:
        if self.capacity is not None:
            self.slots = [None] * self.capacity

    # ---- what is there ----

    def segment(self, shard: int, round_: int) -> set[Sample]:
        """The retained samples of one segment."""
        return {x for x, s in self.shard_of.items() if s == shard and x[1] == round_}

    def count_between(self, shard: int, after: int, up_to: int) -> int:
        """Number of retained samples of a shard in the rounds after < t <= up_to."""
        return sum(1 for x, s in self.shard_of.items() if s == shard and after < x[1] <= up_to)

    def stored(self) -> list[SubModel]:
        """All stored sub-models, by shard and round."""
        return sorted((m for m in self.slots if m is not None), key=lambda m: (m.shard, m.round))

    def stored_of(self, shard: int) -> list[SubModel]:
        """The stored sub-models of a shard, oldest first; the last one is its head."""
        return [m for m in self.stored() if m.shard == shard]

    def slot_of(self, model: SubModel) -> int:
        """The slot number (from 1) of a stored sub-model."""
        return self.slots.index(model) + 1

    def pinned(self, newcomer: SubModel) -> set[int]:
        """The slots of the heads of the other shards."""
        others = {m.shard for m in self.stored()} - {newcomer.shard}
        return {self.slot_of(self.stored_of(s)[-1]) for s in others}

    # ---- training and admission ----

    def train(self, shard: int, round_: int) -> int:
        """Train one non-empty segment on the shard's newest sub-model and admit the result.

        Returns the number of samples trained, rehearsed ones included.
        """
        own = self.segment(shard, round_)
        assert own
        chain = self.stored_of(shard)
        assert not chain or chain[-1].round < round_
        seen = chain[-1].seen if chain else frozenset()
        earlier = self.count_between(shard, 0, round_ - 1)
        rehearsed = min(math.floor(self.rehearsal * len(own)), earlier)
        self.admit(SubModel(shard, round_, seen | own))
        return len(own) + rehearsed

    def admit(self, newcomer: SubModel) -> None:
        """Store a sub-model: in a free slot (lowest first), else in the policy's victim's slot."""
        own = self.stored_of(newcomer.shard)
        if self.policy == "latest" and own:  # always replaces its predecessor, free slots or not
            slot = self.slot_of(own[-1])
        elif None in self.slots:
            slot = self.slots.index(None) + 1
        elif self.capacity is None:
            self.slots.append(None)
            slot = len(self.slots)
        else:
            slot = self.victim(newcomer)
            assert slot not in self.pinned(newcomer)
        self.slots[slot - 1] = newcomer

    def victim(self, newcomer: SubModel) -> int:
        """The slot that the policy gives up; the memory is full."""
        if self.policy == "fibor":
            return self.victim_fibor(newcomer)
        if self.policy == "fifo":
            return self.victim_fifo(newcomer)
        if self.policy == "static":
            return self.victim_static(newcomer)
        if self.policy == "cost":
            return self.victim_cost(newcomer)
        raise AssertionError(f"{self.policy} is never full")

    def after(self, slot: int, steps: int = 1) -> int:
        """The slot `steps` further on the ring 1..N."""
        return (slot - 1 + steps) % len(self.slots) + 1

    def victim_fibor(self, newcomer: SubModel) -> int:
        """Jump; a jump onto a pinned slot counts; after N in vain walk to the next unpinned slot."""
        pinned = self.pinned(newcomer)
        for _ in range(len(self.slots)):
            self.i_replace = self.after(self.i_replace, fibonacci(self.i_fibor))
            self.i_fibor += 1
            if self.i_replace not in pinned:
                return self.i_replace
        while self.i_replace in pinned:
            self.i_replace = self.after(self.i_replace)
        return self.i_replace

    def victim_fifo(self, newcomer: SubModel) -> int:
        """The pointer's slot, skipping pinned ones; the pointer then stands one past the victim."""
        pinned = self.pinned(newcomer)
        slot = self.pointer
        while slot in pinned:
            slot = self.after(slot)
        self.pointer = self.after(slot)
        return slot

    def victim_static(self, newcomer: SubModel) -> int:
        """The newcomer's shard's newest stored one; with none, the newest non-head."""
        own = self.stored_of(newcomer.shard)
        if own:
            return self.slot_of(own[-1])
        pinned = self.pinned(newcomer)
        free = [m for m in self.stored() if self.slot_of(m) not in pinned]
        return self.slot_of(max(free, key=lambda m: (m.round, m.shard)))

    def victim_cost(self, newcomer: SubModel) -> int:
        """The non-head with the least W * N, ties by (shard, round); the newcomer is its shard's head."""
        best: tuple[int, int, int] | None = None
        for model in self.stored():
            s, k = model.shard, model.round
            rounds = [m.round for m in self.stored_of(s)] + ([newcomer.round] if s == newcomer.shard else [])
            later = [t for t in rounds if t > k]
            if not later:
                continue  # a head
            previous = max((t for t in rounds if t < k), default=0)
            w = self.count_between(s, k, min(later))
            n = self.count_between(s, previous, k)
            if best is None or (w * n, s, k) < best:
                best = (w * n, s, k)
        assert best is not None
        return next(self.slot_of(m) for m in self.stored() if (m.shard, m.round) == best[1:])

    # ---- forgetting ----

    def chosen(self, forget: dict) -> list[Sample]:
        """The retained samples that a forget line names, lowest positions first."""
        of_round, count = forget.get("of_round"), forget.get("count")
        if of_round is None and count is not None:
            raise ValueError("a forget with `count` needs `of_round`")
        mine = sorted(x for x in self.shard_of if x[0] == forget["user"] and of_round in (None, x[1]))
        if "positions" in forget:
            ends = [item.split("-") for item in forget["positions"].split(",")]
            named = {p for item in ends for p in range(int(item[0]), int(item[-1]) + 1)}
            return [x for x in mine if x[2] in named]
        return mine if count is None else mine[:count]

    def forget(self, batch: list[dict], now: int) -> tuple[int, int]:
        """Delete the samples of all lines, drop what they tainted, replay. Returns (RSN, touched shards)."""
        first: dict[int, int] = {}  # touched shard -> its first touched round
        for line in batch:
            for sample in self.chosen(line):
                shard = self.shard_of.pop(sample)
                first[shard] = min(first.get(shard, sample[1]), sample[1])
        for i, model in enumerate(self.slots):
            if model is not None and model.shard in first and model.round >= first[model.shard]:
                self.slots[i] = None
        rsn = 0
        for shard in sorted(first):
            chain = self.stored_of(shard)
            restart = chain[-1].round if chain else 0
            for t in range(restart + 1, now + 1):
                if self.segment(shard, t):
                    rsn += self.train(shard, t)
        self.check()
        return rsn, len(first)

    def check(self) -> None:
        """The law: each stored sub-model saw exactly what its shard retains up to its round; heads are stored."""
        for m in self.stored():
            assert m.seen == {x for x, s in self.shard_of.items() if s == m.shard and x[1] <= m.round}, m
        for shard in set(self.shard_of.values()):
            newest = max(x[1] for x, s in self.shard_of.items() if s == shard)
            assert self.stored_of(shard)[-1].round == newest
        assert self.capacity is None or len(self.slots) == self.capacity


def oracle(
    trace: list[dict],
    *,
    policy: str,
    slots: int | None,
    requests: str = "one-by-one",
    rehearsal: float = 0.0,
) -> dict:
    """Run a trace (partition `given`) and report what `cause simulate --json` reports, plus `seen`."""
    if policy not in POLICIES or requests not in REQUESTS:
        raise ValueError(f"unknown policy or way of requests: {policy}, {requests}")
    shards = 1 + max((line["add"]["shard"] for line in trace if "add" in line), default=-1)
    capacity = None if policy == "unlimited" else slots
    if capacity is not None and capacity < shards:
        raise ValueError(f"{capacity} slots cannot hold the heads of {shards} shards")
    world = World(policy, capacity, rehearsal)
    rsn_per_round: list[int] = []
    replays = 0
    for now in range(1, max((line["round"] for line in trace), default=0) + 1):
        adds = [line["add"] for line in trace if line["round"] == now and "add" in line]
        forgets = [line["forget"] for line in trace if line["round"] == now and "forget" in line]
        uploaded: dict[str, int] = {}
        for add in adds:
            start = uploaded.get(add["user"], 0)
            uploaded[add["user"]] = start + add["count"]
            for position in range(start, start + add["count"]):
                world.shard_of[(add["user"], now, position)] = add["shard"]
        for shard in range(shards):
            if world.segment(shard, now):
                world.train(shard, now)
        world.check()
        batches = [forgets] if requests == "coalesced" else [[line] for line in forgets]
        rsn_per_round.append(0)
        for batch in batches:
            rsn, touched = world.forget(batch, now)
            rsn_per_round[-1] += rsn
            replays += touched
    return {
        "rsn": sum(rsn_per_round),
        "rsn_per_round": rsn_per_round,
        "requests": sum(1 for line in trace if "forget" in line),
        "replays": replays,
        "stored": [[m.shard, m.round] for m in world.stored()],
        "seen": [sorted(m.seen) for m in world.stored()],
    }
