"""A home's history as a trace: who uploaded and forgot how much, by pseudonym, with the shards it went to."""

from collections.abc import Iterator
from typing import NamedTuple

from cause.device.store.home import Home
from cause.device.store.seals import open_classes, upload_key
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.lab.trace import Add, Round, Trace


class _Line(NamedTuple):
    round: int
    kind: str
    pseudonym: int
    of_round: int | None
    samples: int
    shard: int
    classes: tuple[tuple[int, int], ...] | None
    """Each with how many samples of it; None for an upload that lost some."""


def history(home: Home) -> Trace:
    """The trace of a home. Users are u1, u2 … in the order in which they came; nothing tells who they are.

    A trace's forget takes the lowest positions of a user's upload. Where one upload went to several shards, that
    would hit the wrong ones: such a user appears once for each shard, as u1.0, u1.1 … One request for several rounds
    is one line for each of them, unless it took all that the user had.
    """
    with home.database.reading():
        lines, rounds = _lines(home), home.database.get("round", 0)
    spread = _spread(lines)

    def name(line: _Line) -> str:
        return f"u{line.pseudonym}.{line.shard}" if line.pseudonym in spread else f"u{line.pseudonym}"

    trace = Trace([Round(number) for number in range(1, rounds + 1)])
    left: dict[str, dict[int, int]] = {}
    adds, requests = _by_round([[line] for line in lines if line.kind == "add"]), _by_round(_requests(lines))
    for round_ in trace.rounds:
        for line in (line for each in adds.get(round_.number, ()) for line in each):
            round_.adds.append(Add(name(line), Part(line.samples, line.classes, line.shard)))
            held = left.setdefault(name(line), {})
            held[line.round] = held.get(line.round, 0) + line.samples
        for request in requests.get(round_.number, ()):
            for user in dict.fromkeys(map(name, request)):
                own = {line.of_round or 0: line.samples for line in request if name(line) == user}
                round_.forgets.extend(_forgets(user, left[user], own))
    return trace


def _lines(home: Home) -> list[_Line]:
    vault, blocks = home.vault, home.queries.blocks_by_upload()
    lines = []
    for round_, kind, pseudonym, of_round, samples, shard, sealed in home.queries.history():
        own, classes = blocks.get((round_, pseudonym), []), None
        if sealed is not None and own and all(name in vault for name in own):  # not so if another process was faster
            classes = tuple(open_classes(upload_key(vault, own), bytes(sealed)).items())
        lines.append(_Line(round_, kind, pseudonym, of_round, samples, shard, classes))
    return lines


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
