"""Sequences of requests: each one chooses among the retained samples, and can follow another."""

from collections.abc import Callable, Sequence

from cause.engine.requests import Request
from tests.exactness.observer import Observed
from tests.small_learners import Sample


def one_of_an_old_round(seen: Observed) -> None:
    old = seen.rounds()[0]
    seen.serve(Request(seen.users(old)[0], (old,), 1))


def one_of_the_newest_round(seen: Observed) -> None:
    new = seen.rounds()[-1]
    _, _, position = seen.of(user := seen.users(new)[0], new)[-1]
    seen.serve(Request(user, samples=((new, position),)))


def several(seen: Observed) -> None:
    """Three users, who wait together, for samples of their first and last rounds in turn."""
    users = seen.users()[:3]
    seen.serve(*(Request(user, (seen.of(user)[-1 if i % 2 else 0][1],), 1) for i, user in enumerate(users)))


def overlapping(seen: Observed) -> None:
    """Of one round: the lowest sample, a named one, and then whatever is left; then a neighbour's share of it."""
    old = seen.rounds()[0]
    user, *others = seen.users(old)
    named = seen.of(user, old)[-1]
    requests = [Request(user, samples=(named[1:],))]
    if len(seen.of(user, old)) > 1:
        requests.insert(0, Request(user, (old,), 1))
    if len(seen.of(user, old)) > 2:
        requests.append(Request(user, (old,)))
    seen.serve(*requests)
    if others:
        seen.serve(Request(others[0], (old,), 1))


def round_of_a_user(seen: Observed) -> None:
    middle = seen.rounds()[len(seen.rounds()) // 2]
    seen.serve(Request(seen.users(middle)[0], (middle,)))


def last_of_a_segment(seen: Observed) -> None:
    """First all of it but one sample, then that one; of a shard that has others, where there is one."""
    shards = [key.shard for key, _ in seen.segments()]
    key, samples = min(seen.segments(), key=lambda one: (shards.count(one[0].shard) == 1, len(one[1]), one[0]))
    _all_but_one_then_that(seen, samples)
    assert key not in dict(seen.segments())


def whole_user(seen: Observed) -> None:
    seen.serve(Request(seen.users()[0]))


def user_who_returns(seen: Observed) -> None:
    """Gone with everything, back in the next round beside another, and asking again."""
    user, neighbour = seen.users()[:2]
    seen.serve(Request(user))
    seen.learn({user: 5, neighbour: 4})
    seen.serve(Request(user, (seen.round,), 1))


def last_of_a_shard(seen: Observed) -> None:
    """First all of the shard but one sample, then that one."""
    by_shard: dict[int, list[Sample]] = {}
    for key, samples in seen.segments():
        by_shard.setdefault(key.shard, []).extend(samples)
    shard = min(by_shard, key=lambda each: (len(by_shard[each]), each))
    _all_but_one_then_that(seen, by_shard[shard])
    assert shard not in seen.device.heads()


def round_of_everybody(seen: Observed) -> None:
    old = seen.rounds()[0]
    seen.serve(*(Request(user, (old,)) for user in seen.users(old)))


def _all_but_one_then_that(seen: Observed, samples: Sequence[Sample]) -> None:
    *most, last = sorted(samples)
    users = sorted({user for user, _, _ in most})
    if users:
        seen.serve(*(Request(user, samples=tuple(s[1:] for s in most if s[0] == user)) for user in users))
    seen.serve(Request(last[0], samples=(last[1:],)))


# In the order in which one device can serve all of them
SEQUENCES: dict[str, Callable[[Observed], None]] = {
    "one-old": one_of_an_old_round,
    "one-new": one_of_the_newest_round,
    "several": several,
    "overlapping": overlapping,
    "round-of-a-user": round_of_a_user,
    "last-of-a-segment": last_of_a_segment,
    "last-of-a-shard": last_of_a_shard,
    "user-returns": user_who_returns,
    "round-of-everybody": round_of_everybody,
    "whole-user": whole_user,
}
