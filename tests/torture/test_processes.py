"""A home that is opened anew for each call ends in the same state as one that stays open."""

import pytest

from tests.quick import quick_only
from tests.torture.processes import BY_POLICY, cut_into_processes, long_case


# tests/engine/memory/test_contract.py cuts traces of every policy in the quick suite
@pytest.mark.parametrize("seed", quick_only(range(len(BY_POLICY) + 1), (3,)))
def test_a_trace_cut_into_processes_ends_as_in_one(seed):
    case = long_case(seed)
    assert cut_into_processes(case, seed) == [], case.system
