"""Sets of positions behave as sets, whichever way they are held."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cause.common import positions as pos

numbers = st.sets(st.integers(0, 30))
held = numbers.flatmap(lambda s: st.just((s, pos.from_values(s))))


def as_set(positions):
    return {int(p) for p in positions}


@given(held)
def test_a_set_is_held_as_a_range_where_it_is_one(a):
    assert as_set(a[1]) == a[0]
    assert isinstance(a[1], range) == (not a[0] or max(a[0]) - min(a[0]) + 1 == len(a[0]))


@given(held, held)
def test_common_and_minus_are_intersection_and_difference(a, b):
    assert as_set(pos.common(a[1], b[1])) == a[0] & b[0]
    assert as_set(pos.minus(a[1], b[1])) == a[0] - b[0]


@given(held, held)
def test_a_union_of_disjoint_parts_has_all_of_both(a, b):
    assert as_set(pos.union([a[1], pos.minus(b[1], a[1])])) == a[0] | b[0]


@given(held, st.integers(0, 40))
def test_the_lowest_are_the_first_in_order(a, count):
    assert as_set(pos.lowest(a[1], count)) == set(sorted(a[0])[:count])


@given(numbers, numbers)
def test_runs_names_a_set_and_nothing_else(a, b):
    as_array = np.array(sorted(a), dtype=np.int64)
    assert pos.runs(pos.from_values(a)) == pos.runs(as_array)
    assert (pos.runs(pos.from_values(a)) == pos.runs(pos.from_values(b))) == (a == b)


@given(held, st.integers(1, 4))
def test_split_puts_each_into_one_part(a, parts):
    codes = np.array([p % parts for p in sorted(a[0])], dtype=np.int64)
    cut = pos.split(a[1], codes)
    assert {code: as_set(part) for code, part in cut.items()} == {
        code: {p for p in a[0] if p % parts == code} for code in {p % parts for p in a[0]}
    }
