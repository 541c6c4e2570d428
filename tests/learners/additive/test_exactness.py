"""The additive law: after forgetting, the state's bytes are those of a device that never had the samples."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cause import AdditiveLearner, Cause
from cause.engine.samples import arrays_of
from cause.learners.additive.expand import Expansion
from tests.learners.additive.cases import case, state_of
from tests.quick import quick_only

SIZES = (1, 200, 1025)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**31), merge=st.booleans())
def test_a_random_life_ends_where_it_would_without_what_was_forgotten(seed: int, merge: bool):
    case(seed, merge=merge)


def samples(n: int, features: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, features)), draw.integers(3, size=n)


@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("expand", [0, 64])
def test_exact_across_the_block_size(bits: int, expand: int):
    def make() -> Cause:
        return Cause(learner=AdditiveLearner(features=40, scale=(-3, 3), classes=3, bits=bits, expand=expand))

    device, clean = make(), make()
    device.learn({f"u{n}": samples(n, seed=n) for n in SIZES})
    device.forget("u1025", rounds=[1], count=1024)
    device.forget("u200")
    kept = device.ledger.held_pieces("u1025", 1)[0][1]
    row = arrays_of(*kept)[0][0]
    x, y = samples(1025, seed=1025)
    (left,) = np.flatnonzero((device.learner.recorded(x) == row).all(axis=1))
    clean.learn({"u1": samples(1, seed=1), "u1025": (x[[left]], y[[left]])})
    assert state_of(device) == state_of(clean)
    assert device.heads() == clean.heads()


def test_largest_values_are_summed_exactly():
    learner = AdditiveLearner(features=3, scale=(0, 1), classes=2, bits=16)
    device = Cause(learner=learner)
    n = 5_000
    device.learn({"ann": (np.ones((n, 3)), np.ones(n, dtype=int))})
    sums = learner.decode(state_of(device))
    assert int(sums.parts["gram"]._panels[0][0, 1]) == n * 65_535**2
    assert int(sums.parts["cross"][0, 1]) == n * 65_535


def test_an_empty_state_is_that_of_a_new_device():
    device = Cause(learner=AdditiveLearner(features=40, scale=(-3, 3), classes=3))
    device.learn({"ann": samples(7)})
    device.learn({"ann": samples(7), "bob": samples(1)})
    device.forget("ann")
    device.forget("bob")
    assert device.heads() == {}
    device.learn({"cem": samples(5, seed=9)})
    fresh = Cause(learner=AdditiveLearner(features=40, scale=(-3, 3), classes=3))
    for _ in range(2):
        fresh.learn({}, empty=True)
    fresh.learn({"cem": samples(5, seed=9)})
    assert state_of(device) == state_of(fresh)
    assert device.heads() == fresh.heads()


def test_the_random_layer_of_a_recipe_is_the_same_in_every_version():
    layer = Expansion(features=3, largest=255, units=8, seed=1)
    units = layer.units_of(np.array([[0.0, 128.0, 255.0], [7.0, 200.0, 31.0]]))
    assert units.tolist() == [[49, 1412, 144, 0, 0, 0, 3650, 0], [0, 0, 904, 0, 0, 790, 0, 0]]


PROGRAM = """
import hashlib, sys
import numpy as np
from cause import AdditiveLearner, Cause
from cause.engine.samples import arrays_of
draw = np.random.default_rng(0)
device = Cause(learner=AdditiveLearner(features=300, scale=(-3, 3), classes=5, expand=400, solve="portable"))
for t in range(3):
    device.learn({user: (draw.normal(size=(257, 300)), draw.integers(5, size=257)) for user in ("ann", "bob")})
device.forget("ann", rounds=[2], count=100)
learner, head = device.learner, device.memory.head(0)
state = device.memory.shelf.get(head.key)
weights = learner.head.solve(learner.decode(state)).arrays["weights"]
print(hashlib.sha256(state + weights.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("kernel", quick_only(["", "Prescott", "Nehalem", "Haswell"], ["", "Prescott"]))
def test_one_digest_whatever_the_kernel_and_the_threads(kernel: str):
    digests = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        if kernel:
            environment["OPENBLAS_CORETYPE"] = kernel
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        digests.add(done.stdout.decode().strip())
    assert digests == {digest_here()}


def digest_here() -> str:
    draw = np.random.default_rng(0)
    learner = AdditiveLearner(features=300, scale=(-3, 3), classes=5, expand=400, solve="portable")
    device = Cause(learner=learner)
    for _ in range(3):
        device.learn({user: (draw.normal(size=(257, 300)), draw.integers(5, size=257)) for user in ("ann", "bob")})
    device.forget("ann", rounds=[2], count=100)
    state = state_of(device)
    weights = learner.head.solve(learner.decode(state)).arrays["weights"]
    return hashlib.sha256(state + weights.tobytes()).hexdigest()
