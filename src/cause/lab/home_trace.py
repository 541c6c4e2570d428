"""The history of a home as a trace: uploads and erasures by pseudonym, with their shards."""

from collections.abc import Iterator
from typing import NamedTuple

from cause.device.home.home import Home
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
    """Class and number of samples; None for an upload of which samples were forgotten."""


def history(home: Home) -> Trace:
    """Return the history of a home as a trace.

    Users are called u1, u2 … in the order of their first uploads; their ids are not in it. A forget in a trace takes
    the lowest positions of a user's upload. If an upload went to several shards those positions would be in the wrong
    ones, so such a user appears once for each shard, as u1.0, u1.1 … A request for several rounds becomes one line for
    each round, unless it took everything of the user.
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
        for line in (line for group in adds.get(round_.number, ()) for line in group):
            round_.adds.append(Add(name(line), Part(line.samples, line.classes, line.shard)))
            held = left.setdefault(name(line), {})
            held[line.round] = held.get(line.round, 0) + line.samples
        for request in requests.get(round_.number, ()):
            for user in dict.fromkeys(map(name, request)):
                taken = {line.of_round or 0: line.samples for line in request if name(line) == user}
                round_.forgets.extend(_forgets(user, left[user], taken))
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
    """Return the users of whom an upload went to several shards."""
    shards: dict[tuple[int, int], set[int]] = {}
    for line in lines:
        if line.kind == "add":
            shards.setdefault((line.pseudonym, line.round), set()).add(line.shard)
    return {pseudonym for (pseudonym, _), shards_of_upload in shards.items() if len(shards_of_upload) > 1}


def _by_round(groups: list[list[_Line]]) -> dict[int, list[list[_Line]]]:
    by_round: dict[int, list[list[_Line]]] = {}
    for group in groups:
        by_round.setdefault(group[0].round, []).append(group)
    return by_round


def _requests(lines: list[_Line]) -> list[list[_Line]]:
    """Group the lines of forgets that may belong to one request: of one user, with ascending uploads, each once."""
    requests: list[list[_Line]] = []
    for line in lines:
        if line.kind != "forget":
            continue
        last = requests[-1] if requests else []
        follows = bool(last) and (last[-1].round, last[-1].pseudonym) == (line.round, line.pseudonym)
        seen = {(earlier.of_round, earlier.shard) for earlier in last}
        if follows and (line.of_round, line.shard) not in seen and (line.of_round or 0) >= (last[-1].of_round or 0):
            last.append(line)
        else:
            requests.append([line])
    return requests


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
