"""Whoever opens a home for each call gets what one process gets."""

import pytest

from tests.torture.processes import BY_POLICY, cut_into_processes, long_case


@pytest.mark.parametrize("seed", range(len(BY_POLICY) + 1))
def test_a_trace_cut_into_processes_ends_as_in_one(seed):
    case = long_case(seed)
    assert cut_into_processes(case, seed) == [], case.system
