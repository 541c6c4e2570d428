"""Traces: who uploaded how much and who asked to forget what, as JSON lines.

    {"round": 1, "add": {"user": "u7", "count": 31, "labels": {"3": 20, "5": 11}, "shard": 0}}
    {"round": 2, "forget": {"user": "u7", "of_round": 1, "positions": "0-2,8,30"}}
    {"round": 2, "forget": {"user": "u7", "of_round": 1, "count": 5}}

A round's adds come before its forgets. `labels` and `shard` are optional (partitions `by-class` and `given` need
them; others ignore them). Positions follow the labels in ascending order; a second add of a user in the same round
continues their positions. A forget takes the named `positions` of a round, or the lowest `count` that are still
retained; without both all of that round, without `of_round` too all of the user's.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cause.common import positions as pos
from cause.common.files import write_text
from cause.common.names import LONGEST_USER_ID
from cause.common.positions import Positions
from cause.engine.controller import MOST_SHARDS
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.errors import InputError, TraceError

MOST_ROUNDS = 1_000_000
MOST_SAMPLES = 10**12
MOST_NAMED = 50_000_000
"""The most samples of an upload of which positions can be named."""
_CLASS = re.compile(r"0|[1-9][0-9]{0,8}")
_FIELDS = {"add": ("user", "count", "labels", "shard"), "forget": ("user", "of_round", "count", "positions")}


@dataclass(frozen=True, slots=True)
class Add:
    """One `add` line."""

    user: str
    part: Part


@dataclass(frozen=True, slots=True)
class Round:
    """The adds and forgets of one round."""

    number: int
    adds: list[Add] = field(default_factory=list)
    forgets: list[Request] = field(default_factory=list)

    def uploads(self) -> list[TraceUpload]:
        """Return the uploads of the round, one for each user."""
        parts: dict[str, list[Part]] = {}
        for add in self.adds:
            parts.setdefault(add.user, []).append(add.part)
        return [TraceUpload(user, self.number, tuple(parts_of_user)) for user, parts_of_user in parts.items()]


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
        """The number of requests."""
        return sum(len(round_.forgets) for round_ in self.rounds)

    @property
    def samples(self) -> int:
        """The number of uploaded samples."""
        return sum(add.part.count for round_ in self.rounds for add in round_.adds)

    @property
    def given_shards(self) -> int:
        """The number of shards that the trace names: 1 + the highest."""
        named = (add.part.shard for round_ in self.rounds for add in round_.adds)
        return 1 + max((shard for shard in named if shard is not None), default=0)

    def lines(self) -> Iterator[str]:
        """Yield the trace as JSON lines."""
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
    samples, rounds = request.samples or (), request.rounds
    of_rounds = {round_ for round_, _ in samples} if request.samples is not None else set(rounds or ())
    if request.handles is not None or len(of_rounds) > 1:
        raise InputError(
            "a trace can say a user's everything, one round of it, or a count or positions of one round: not "
            + ("handles" if request.handles is not None else f"samples of {len(of_rounds)} rounds in one request")
        )
    fields: dict[str, Any] = {"user": request.user}
    if of_rounds:
        fields["of_round"] = of_rounds.pop()
    if request.count is not None:
        fields["count"] = request.count
    if request.samples is not None:
        fields["positions"] = pos.to_text(pos.from_values(position for _, position in samples))
    return fields


def read_trace(path: str | Path, *, partitions: Collection[str] = (), classes: int = 10) -> Trace:
    """Read a trace file.

    Parameters
    ----------
    path
        The file.
    partitions
        The partitions that it must be usable with: `by-class` needs labels, `given` needs shards.
    classes
        The number of classes.

    Raises
    ------
    TraceError
        If lines are wrong; it names all of them.
    InputError
        If the file cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the trace {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return parse_trace(lines, source=str(path), partitions=partitions, classes=classes)


def parse_trace(
    lines: Iterable[str | bytes], *, source: str = "trace", partitions: Collection[str] = (), classes: int = 10
) -> Trace:
    """Read a trace from its lines; `source` is named in errors, the rest is as for `read_trace`."""
    reader = _Reader(partitions, classes)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            reader.read(number, line)
    if not reader.rounds and not reader.problems:
        reader.problems.append((1, "the trace is empty"))
    if reader.problems:
        raise TraceError(_printable(source), reader.problems)
    return Trace(reader.rounds)


class _Unreadable(Exception):
    """A line that cannot be read further; its text says why."""


class _Reader:
    """Reads line by line, and keeps which samples each user has left."""

    def __init__(self, partitions: Collection[str], classes: int) -> None:
        self.rounds: list[Round] = []
        self.problems: list[tuple[int, str]] = []
        self._partitions, self._classes = partitions, classes
        self._left: dict[str, dict[int, Positions]] = {}
        self._unsure: set[str] = set()  # users with an add that could not be read: what they have left is unknown
        self._wrong: list[str] = []  # problems of the current line

    def read(self, number: int, line: str | bytes) -> None:
        """Read a line, and add what is wrong with it to `problems`."""
        self._wrong = []
        try:
            self._event(_decoded(line))
        except _Unreadable as problem:
            self._wrong.append(str(problem))
        self.problems += [(number, problem) for problem in self._wrong]

    def _event(self, event: Any) -> None:
        if not isinstance(event, dict):
            raise _Unreadable(f"an object with 'round' and 'add' or 'forget' is needed, not {_shown(event)}")
        number = self._whole(event, "round", 1, MOST_ROUNDS)
        kinds = [kind for kind in event if kind != "round"]
        if kinds not in (["add"], ["forget"]):
            raise _Unreadable(f"beside 'round' either 'add' or 'forget' is needed, not {_shown(kinds)}")
        kind, fields = kinds[0], event[kinds[0]]
        if not isinstance(fields, dict):
            raise _Unreadable(f"'{kind}' must be an object, not {_shown(fields)}")
        self._wrong += [
            f"unknown field {_shown(name)} in '{kind}': one of {', '.join(_FIELDS[kind])}"
            for name in fields
            if name not in _FIELDS[kind]
        ]
        user = fields.get("user")
        if not isinstance(user, str) or not 1 <= len(user) <= LONGEST_USER_ID:
            self._wrong.append(f"'user' must be a text of 1 to {LONGEST_USER_ID} characters, not {_shown(user)}")
            user = None
        if number is not None and number < len(self.rounds):
            self._wrong.append(f"out of order: round {number} after round {len(self.rounds)}")
            number = None
        if kind == "add":
            self._add(number, user, fields)
        else:
            self._forget(number, user, fields)

    def _round(self, number: int) -> Round:
        while len(self.rounds) < number:
            self.rounds.append(Round(len(self.rounds) + 1))
        return self.rounds[-1]

    def _add(self, number: int | None, user: str | None, fields: dict[str, Any]) -> None:
        if number is not None and number == len(self.rounds) and self.rounds[-1].forgets:
            self._wrong.append(f"out of order: an add of round {number} after its forgets")
        count = self._whole(fields, "count", 1, MOST_SAMPLES)
        labels = self._labels(fields, count)
        shard = self._shard(fields)
        if user is None:
            return
        if self._wrong or number is None or count is None:
            self._unsure.add(user)
            return
        self._round(number).adds.append(Add(user, Part(count, labels, shard)))
        left = self._left.setdefault(user, {})
        left[number] = range(len(left.get(number, ())) + count)  # adds come before a round's forgets

    def _labels(self, fields: dict[str, Any], count: int | None) -> tuple[tuple[int, int], ...] | None:
        if "labels" not in fields:
            if "by-class" in self._partitions:
                self._wrong.append("'labels' is needed for the partition by class")
            return None
        labels = fields["labels"]
        if not isinstance(labels, dict) or not labels or not all(_CLASS.fullmatch(label) for label in labels):
            self._wrong.append(f"'labels' must be an object of class numbers and counts, not {_shown(labels)}")
            return None
        counts = [(int(label), self._whole(labels, label, 1, MOST_SAMPLES)) for label in labels]
        readable = sorted((label, samples) for label, samples in counts if samples is not None)
        if count is not None and len(readable) == len(counts) and sum(samples for _, samples in readable) != count:
            self._wrong.append(f"'labels' add up to {sum(samples for _, samples in readable)}, but 'count' is {count}")
        highest = max(label for label, _ in counts)
        if "by-class" in self._partitions and highest >= self._classes:
            self._wrong.append(f"label {highest}, but there are {self._classes} classes (from 0)")
        return tuple(readable)

    def _shard(self, fields: dict[str, Any]) -> int | None:
        if "shard" in fields:
            return self._whole(fields, "shard", 0, MOST_SHARDS - 1)
        if "given" in self._partitions:
            self._wrong.append("'shard' is needed for the partition 'given'")
        return None

    def _forget(self, number: int | None, user: str | None, fields: dict[str, Any]) -> None:
        of_round = self._whole(fields, "of_round", 1, MOST_ROUNDS) if "of_round" in fields else None
        count = self._whole(fields, "count", 1, MOST_SAMPLES) if "count" in fields else None
        named = self._positions(fields) if "positions" in fields else None
        for field_ in ("count", "positions"):
            if field_ in fields and "of_round" not in fields:
                self._wrong.append(f"'{field_}' needs 'of_round'")
        if "count" in fields and "positions" in fields:
            self._wrong.append("give either 'count' or 'positions', not both")
        if self._wrong or user is None or number is None or user in self._unsure:
            return
        left = self._left.get(user)
        if left is None:
            self._wrong.append(f"unknown user {_shown(user)}: a forget before any add")
        elif of_round is None and not left:
            self._wrong.append(f"nothing of user {_shown(user)} is left to forget")
        elif of_round is not None and of_round > number:
            self._wrong.append(f"user {_shown(user)} forgets round {of_round} in round {number}: before its add")
        elif of_round is not None and of_round not in left:
            self._wrong.append(f"user {_shown(user)} has nothing left of round {of_round}")
        elif of_round is not None and count is not None and count > len(left[of_round]):
            self._wrong.append(
                f"user {_shown(user)} has {len(left[of_round])} samples left of round {of_round}, not {count}"
            )
        elif of_round is not None and named is not None:
            self._forget_named(number, user, left, of_round, named)
        else:
            self._take(left, of_round, count)
            rounds = None if of_round is None else (of_round,)
            self._round(number).forgets.append(Request(user, rounds, count))

    def _positions(self, fields: dict[str, Any]) -> Positions | None:
        text = fields["positions"]
        if not isinstance(text, str):
            self._wrong.append(f"'positions' must be a text such as \"0-2,8\", not {_shown(text)}")
            return None
        try:
            return pos.from_text(text, MOST_NAMED)
        except ValueError as problem:
            self._wrong.append(f"'positions' must be ascending positions and ranges, as \"0-2,8\": {problem}")
            return None

    def _forget_named(
        self, number: int, user: str, left: dict[int, Positions], of_round: int, named: Positions
    ) -> None:
        held = left[of_round]
        if len(held) > MOST_NAMED:
            self._wrong.append(
                f"positions of an upload of {len(held):,} samples cannot be named: at most {MOST_NAMED:,}"
            )
            return
        missing = pos.minus(named, held)
        if len(missing):
            self._wrong.append(f"user {_shown(user)} has no sample {int(missing[0])} left of round {of_round}")
            return
        left[of_round] = pos.minus(held, named)
        if not len(left[of_round]):
            del left[of_round]
        samples = tuple((of_round, position) for position in pos.array(named).tolist())
        self._round(number).forgets.append(Request(user, samples=samples))

    @staticmethod
    def _take(left: dict[int, Positions], of_round: int | None, count: int | None) -> None:
        if of_round is None:
            left.clear()
        elif count is None or count == len(left[of_round]):
            del left[of_round]
        else:
            left[of_round] = left[of_round][count:]

    def _whole(self, fields: dict[str, Any], name: str, least: int, most: int) -> int | None:
        value = fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._wrong.append(f"'{name}' must be a whole number from {least} to {most:,}, not {_shown(value)}")
            return None
        return value


def _decoded(line: str | bytes) -> Any:
    try:
        text = line.decode() if isinstance(line, bytes) else line
        return json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise _Unreadable("not text in UTF-8") from None
    except (json.JSONDecodeError, RecursionError):
        raise _Unreadable("not JSON") from None
    except ValueError:
        raise _Unreadable("a number that is too long") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Unreadable(f"{_shown(next(name for name in names if names.count(name) > 1))} is given twice")
    return fields


def _shown(value: object, most: int = 60) -> str:
    if value is None:
        return "nothing"
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        text = f"something deep in {type(value).__name__}"
    text = _printable(text)
    return text if len(text) <= most else text[:most] + "…"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace file. If it fails, no part of it is left."""
    write_text(path, "".join(f"{line}\n" for line in trace.lines()))
