"""A home's history as a trace: who uploaded and forgot how much, by pseudonym, with the shards it went to."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from cause.home.database import Database
from cause.requests import Request
from cause.samples import Part
from cause.trace import Add, Round, Trace


class _Line(NamedTuple):
    round: int
    kind: str
    pseudonym: int
    of_round: int | None
    samples: int
    shard: int
    labels: str | None


def history(database: Database) -> Trace:
    """The trace of a home. Users are u1, u2 … in the order in which they came; nothing tells who they are.

    A trace's forget takes the lowest positions of a user's upload. Where one upload went to several shards, that
    would hit the wrong ones: such a user appears once for each shard, as u1.0, u1.1 … One request for several rounds
    is one line for each of them, unless it took all that the user had.
    """
    lines = [
        _Line(*row)
        for row in database.rows(
            "SELECT round, kind, pseudonym, of_round, samples, shard, labels FROM history ORDER BY seq"
        )
    ]
    spread = _spread(lines)

    def name(line: _Line) -> str:
        return f"u{line.pseudonym}.{line.shard}" if line.pseudonym in spread else f"u{line.pseudonym}"

    trace = Trace([Round(number) for number in range(1, database.get("round", 0) + 1)])
    left: dict[str, dict[int, int]] = {}
    adds, requests = _by_round([[line] for line in lines if line.kind == "add"]), _by_round(_requests(lines))
    for round_ in trace.rounds:
        for line in (line for each in adds.get(round_.number, ()) for line in each):
            labels = None if line.labels is None else json.loads(line.labels)
            runs = None if labels is None else tuple(sorted((int(each), n) for each, n in labels.items()))
            round_.adds.append(Add(name(line), Part(line.samples, runs, line.shard)))
            held = left.setdefault(name(line), {})
            held[line.round] = held.get(line.round, 0) + line.samples
        for request in requests.get(round_.number, ()):
            for user in dict.fromkeys(map(name, request)):
                own = {line.of_round or 0: line.samples for line in request if name(line) == user}
                round_.forgets.extend(_forgets(user, left[user], own))
    return trace


def _spread(lines: list[_Line]) -> set[int]:
    """Users of whom one upload went to several shards."""
    shards: dict[tuple[int, int], set[int]] = {}
    for line in lines:
        if line.kind == "add":
            shards.setdefault((line.pseudonym, line.round), set()).add(line.shard)
    return {pseudonym for (pseudonym, _), own in shards.items() if len(own) > 1}


def _by_round(groups: list[list[_Line]]) -> dict[int, list[list[_Line]]]:
    found: dict[int, list[list[_Line]]] = {}
    for group in groups:
        found.setdefault(group[0].round, []).append(group)
    return found


def _requests(lines: list[_Line]) -> list[list[_Line]]:
    """Lines of forgets that one request may have left: of one user, uploads ascending, each once."""
    found: list[list[_Line]] = []
    for line in lines:
        if line.kind != "forget":
            continue
        last = found[-1] if found else []
        follows = bool(last) and (last[-1].round, last[-1].pseudonym) == (line.round, line.pseudonym)
        seen = {(each.of_round, each.shard) for each in last}
        if follows and (line.of_round, line.shard) not in seen and (line.of_round or 0) >= (last[-1].of_round or 0):
            last.append(line)
        else:
            found.append([line])
    return found


def _forgets(user: str, left: dict[int, int], taken: dict[int, int]) -> Iterator[Request]:
    everything = taken == left
    for round_, count in taken.items():
        left[round_] -= count
        if not left[round_]:
            del left[round_]
        if not everything:
            yield Request(user, (round_,), count)
    if everything:
        yield Request(user)
