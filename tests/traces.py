"""Random traces for property tests, and a small one that forgets in every way."""

from hypothesis import strategies as st

from cause.common import positions as pos
from cause.engine.requests import Request
from cause.engine.samples import Part
from cause.lab.trace import Add, Round, Trace

CLASSES = 4

SCENE = Trace(
    [
        Round(1, [Add("a", Part(4, ((0, 2), (1, 2)))), Add("b", Part(3, ((1, 3),)))]),
        Round(2, [Add("a", Part(5, ((2, 5),))), Add("c", Part(2, ((0, 2),)))]),
        Round(3, [Add("b", Part(6, ((1, 6),)))], [Request("a", (1,), 2)]),
        Round(4, [Add("c", Part(4, ((3, 4),)))], [Request("b", (1,)), Request("a", (2,), 1)]),
    ]
)


@st.composite
def traces(draw, most_rounds=6, most_users=5, shards=3, selectors=True) -> Trace:
    """Valid traces with labels and given shards: empty rounds, users who leave, return and overlap."""
    users = [f"u{i}" for i in range(draw(st.integers(1, most_users)))]
    left: dict[str, dict[int, pos.Positions]] = {}
    rounds = []
    for number in range(1, draw(st.integers(1, most_rounds)) + 1):
        round_ = Round(number)
        for user in draw(st.lists(st.sampled_from(users), max_size=len(users) + 1)):
            labels = draw(st.dictionaries(st.integers(0, CLASSES - 1), st.integers(1, 3), min_size=1, max_size=3))
            count = sum(labels.values())
            part = Part(count, tuple(sorted(labels.items())), draw(st.integers(0, shards - 1)))
            round_.adds.append(Add(user, part))
            mine = left.setdefault(user, {})
            mine[number] = range(len(mine.get(number, ())) + count)
        for _ in range(draw(st.integers(0, 3))):
            asking = sorted(user for user, mine in left.items() if mine)
            if asking:
                round_.forgets.append(_request(draw, draw(st.sampled_from(asking)), left, selectors))
        rounds.append(round_)
    return Trace(rounds)


def _request(draw, user: str, left: dict[str, dict[int, pos.Positions]], selectors: bool) -> Request:
    """A request for the lowest samples of a round, for named ones, for a round, or for everything."""
    mine = left[user]
    kind = draw(st.sampled_from(("count", "positions", "round", "everything"))) if selectors else "count"
    if kind == "everything":
        mine.clear()
        return Request(user)
    of_round = draw(st.sampled_from(sorted(mine)))
    held = mine[of_round]
    count = draw(st.integers(1, len(held))) if kind != "round" else len(held)
    chosen = pos.lowest(held, count)
    if kind == "positions":
        chosen = pos.from_values(draw(st.permutations(pos.array(held).tolist()))[:count])
    mine[of_round] = pos.minus(held, chosen)
    if not len(mine[of_round]):
        del mine[of_round]
    if kind == "positions":
        return Request(user, samples=tuple((of_round, position) for position in pos.array(chosen).tolist()))
    return Request(user, (of_round,), count if kind == "count" else None)
