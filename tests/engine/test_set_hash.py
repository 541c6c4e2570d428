"""The hash of a set depends on its elements and on nothing else."""

import numpy as np

from cause.engine.set_hash import SetHash


def of(*elements: bytes) -> bytes:
    made = SetHash()
    for element in elements:
        made.add(element)
    return made.value


def test_it_has_no_order_and_no_history():
    draw, made, held = np.random.default_rng(0), SetHash(), set[bytes]()
    for _ in range(300):
        element = bytes([draw.integers(20)])
        if element in held:
            made.remove(element)
            held.remove(element)
        else:
            made.add(element)
            held.add(element)
    assert made.value == of(*sorted(held)) == of(*sorted(held, reverse=True))


def test_every_element_counts():
    assert len({of(), of(b"a"), of(b"b"), of(b"a", b"b"), of(b"a", b"a"), of(b"ab")}) == 6


def test_it_goes_on_from_a_value():
    made = SetHash(of(b"a", b"b"))
    made.remove(b"a")
    assert made.value == of(b"b")
