"""Traces: who uploaded how much and who asked to forget what, as JSON lines.

    {"round": 1, "add": {"user": "u7", "count": 31, "labels": {"3": 20, "5": 11}, "shard": 0}}
    {"round": 2, "forget": {"user": "u7", "of_round": 1, "count": 5}}

A round's adds come before its forgets. `labels` and `shard` are optional (partitions `by-class` and `given` need
them; others ignore them). Positions follow the labels in ascending order; a second add of a user in the same round
continues their positions. A forget takes the lowest positions still retained; without `count` it takes all of that
round, without `of_round` too all of the user's.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.errors import InputError, TraceError
from cause.files import write_text
from cause.requests import Request
from cause.samples import Part, TraceUpload
from cause.system import LONGEST_USER_ID

MOST_ROUNDS = 1_000_000
MOST_SAMPLES = 10**12
_CLASS = re.compile(r"[0-9]{1,9}")
_FIELDS = {"add": ("user", "count", "labels", "shard"), "forget": ("user", "of_round", "count")}


@dataclass(frozen=True, slots=True)
class Add:
    """One `add` line."""

    user: str
    part: Part


@dataclass(frozen=True, slots=True)
class Round:
    """What happens in one round."""

    number: int
    adds: list[Add] = field(default_factory=list)
    forgets: list[Request] = field(default_factory=list)

    def uploads(self) -> list[TraceUpload]:
        """The round's uploads, one for each user."""
        parts: dict[str, list[Part]] = {}
        for add in self.adds:
            parts.setdefault(add.user, []).append(add.part)
        return [TraceUpload(user, self.number, tuple(own)) for user, own in parts.items()]


@dataclass(frozen=True)
class Trace:
    """Rounds 1, 2, 3 … with nothing left out: a round without a line is an empty one.

    >>> trace = parse_trace(['{"round": 2, "add": {"user": "u7", "count": 31}}'])
    >>> len(trace.rounds), trace.rounds[1].uploads()[0].positions
    (2, range(0, 31))
    """

    rounds: list[Round]

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return sum(len(round_.forgets) for round_ in self.rounds)

    @property
    def samples(self) -> int:
        """How many samples are uploaded."""
        return sum(add.part.count for round_ in self.rounds for add in round_.adds)

    @property
    def given_shards(self) -> int:
        """As many shards as the trace names: 1 + the highest."""
        named = (add.part.shard for round_ in self.rounds for add in round_.adds)
        return 1 + max((shard for shard in named if shard is not None), default=0)

    def lines(self) -> Iterator[str]:
        """The trace as JSON lines."""
        for round_ in self.rounds:
            for add in round_.adds:
                yield _line(round_.number, "add", _add_fields(add))
            for request in round_.forgets:
                yield _line(round_.number, "forget", _forget_fields(request))


def _line(number: int, kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({"round": number, kind: fields}, ensure_ascii=False)


def _add_fields(add: Add) -> dict[str, Any]:
    fields: dict[str, Any] = {"user": add.user, "count": add.part.count}
    if add.part.labels is not None:
        fields["labels"] = {str(label): count for label, count in add.part.labels}
    if add.part.shard is not None:
        fields["shard"] = add.part.shard
    return fields


def _forget_fields(request: Request) -> dict[str, Any]:
    if request.samples is not None or (request.rounds is not None and len(request.rounds) != 1):
        raise InputError("a trace can say a user's everything, one round of it, or a count of one round")
    fields: dict[str, Any] = {"user": request.user}
    if request.rounds is not None:
        fields["of_round"] = request.rounds[0]
    if request.count is not None:
        fields["count"] = request.count
    return fields


def read_trace(path: str | Path, *, partitions: Collection[str] = (), classes: int = 10) -> Trace:
    """Read a trace file; everything that is wrong with it for these partitions is reported at once."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise TraceError(str(path), [(1, "not a text file in UTF-8")]) from None
    except OSError as error:
        raise InputError(f"cannot read the trace {str(path)!r}: {error.strerror}") from None
    return parse_trace(text.split("\n"), source=str(path), partitions=partitions, classes=classes)


def parse_trace(
    lines: Iterable[str], *, source: str = "trace", partitions: Collection[str] = (), classes: int = 10
) -> Trace:
    """Read a trace from its lines."""
    reader = _Reader(partitions, classes)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            reader.read(number, line)
    if not reader.rounds and not reader.problems:
        reader.problems.append((1, "the trace is empty"))
    if reader.problems:
        raise TraceError(source, reader.problems)
    return Trace(reader.rounds)


class _Problem(Exception):
    """What is wrong with one line."""


class _Reader:
    """Reads line by line, keeping in mind what each user has left."""

    def __init__(self, partitions: Collection[str], classes: int) -> None:
        self.rounds: list[Round] = []
        self.problems: list[tuple[int, str]] = []
        self._partitions, self._classes = partitions, classes
        self._left: dict[str, dict[int, int]] = {}

    def read(self, number: int, line: str) -> None:
        try:
            self._event(line)
        except _Problem as problem:
            self.problems.append((number, str(problem)))

    def _event(self, line: str) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise _Problem("not JSON") from None
        if not isinstance(event, dict):
            raise _Problem(f"an object with 'round' and 'add' or 'forget' is needed, not {_shown(event)}")
        round_ = _whole(event, "round", 1, MOST_ROUNDS)
        kinds = [kind for kind in event if kind != "round"]
        if kinds not in (["add"], ["forget"]):
            raise _Problem(f"beside 'round' either 'add' or 'forget' is needed, not {_shown(kinds)}")
        kind, fields = kinds[0], event[kinds[0]]
        if not isinstance(fields, dict):
            raise _Problem(f"'{kind}' must be an object, not {_shown(fields)}")
        for name in fields:
            if name not in _FIELDS[kind]:
                raise _Problem(f"unknown field {name!r} in '{kind}': one of {', '.join(_FIELDS[kind])}")
        user = fields.get("user")
        if not isinstance(user, str) or not 1 <= len(user) <= LONGEST_USER_ID:
            raise _Problem(f"'user' must be a text of 1 to {LONGEST_USER_ID} characters, not {_shown(user)}")
        current = self._round(round_)
        if kind == "add":
            self._add(current, user, fields)
        else:
            self._forget(current, user, fields)

    def _round(self, number: int) -> Round:
        if number < len(self.rounds):
            raise _Problem(f"out of order: round {number} after round {len(self.rounds)}")
        while len(self.rounds) < number:
            self.rounds.append(Round(len(self.rounds) + 1))
        return self.rounds[-1]

    def _add(self, current: Round, user: str, fields: dict[str, Any]) -> None:
        if current.forgets:
            raise _Problem(f"out of order: an add of round {current.number} after its forgets")
        count = _whole(fields, "count", 1, MOST_SAMPLES)
        part = Part(count, self._labels(fields, count), self._shard(fields))
        current.adds.append(Add(user, part))
        left = self._left.setdefault(user, {})
        left[current.number] = left.get(current.number, 0) + count

    def _labels(self, fields: dict[str, Any], count: int) -> tuple[tuple[int, int], ...] | None:
        if "labels" not in fields:
            if "by-class" in self._partitions:
                raise _Problem("'labels' is needed for the partition by class")
            return None
        labels = fields["labels"]
        if not isinstance(labels, dict) or not all(_CLASS.fullmatch(label) for label in labels):
            raise _Problem(f"'labels' must be an object of class numbers and counts, not {_shown(labels)}")
        counts = sorted((int(label), _whole(labels, label, 1, MOST_SAMPLES)) for label in labels)
        if sum(many for _, many in counts) != count:
            raise _Problem(f"'labels' add up to {sum(many for _, many in counts)}, but 'count' is {count}")
        if "by-class" in self._partitions and counts[-1][0] >= self._classes:
            raise _Problem(f"label {counts[-1][0]}, but there are {self._classes} classes (from 0)")
        return tuple(counts)

    def _shard(self, fields: dict[str, Any]) -> int | None:
        if "shard" in fields:
            return _whole(fields, "shard", 0, 999_999)
        if "given" in self._partitions:
            raise _Problem("'shard' is needed for the partition 'given'")
        return None

    def _forget(self, current: Round, user: str, fields: dict[str, Any]) -> None:
        left = self._left.get(user)
        if left is None:
            raise _Problem(f"unknown user {user!r}: a forget before any add")
        of_round = _whole(fields, "of_round", 1, MOST_ROUNDS) if "of_round" in fields else None
        if of_round is None:
            if "count" in fields:
                raise _Problem("'count' needs 'of_round'")
            if not left:
                raise _Problem(f"nothing of user {user!r} is left to forget")
            left.clear()
            current.forgets.append(Request(user))
            return
        if of_round > current.number:
            raise _Problem(f"user {user!r} forgets round {of_round} in round {current.number}: before its add")
        available = left.get(of_round, 0)
        if not available:
            raise _Problem(f"user {user!r} has nothing left of round {of_round}")
        count = _whole(fields, "count", 1, MOST_SAMPLES) if "count" in fields else None
        if count is not None and count > available:
            raise _Problem(f"user {user!r} has {available} samples left of round {of_round}, not {count}")
        left[of_round] = available - (available if count is None else count)
        if not left[of_round]:
            del left[of_round]
        current.forgets.append(Request(user, (of_round,), count))


def _whole(fields: dict[str, Any], name: str, least: int, most: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _Problem(f"'{name}' must be a whole number from {least} to {most:,}, not {_shown(value)}")
    return value


def _shown(value: object, most: int = 60) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[:most] + "…"


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace file, whole or not at all."""
    write_text(path, "".join(f"{line}\n" for line in trace.lines()))
