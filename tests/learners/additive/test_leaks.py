"""Leaks put in on purpose: each must make the comparison with a clean room go red."""

from typing import Any

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.engine.adding import Adding
from cause.learners.additive import learner as learner_module
from cause.learners.additive.expand import Expansion
from cause.learners.additive.scale import Scale
from cause.learners.additive.triangle import Triangle
from tests.learners.additive.cases import state_of


def make(**arguments: Any) -> Cause:
    return Cause(learner=AdditiveLearner(**{"features": 5, "scale": (-3, 3), "classes": 3, **arguments}))


def samples(seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, 5)), draw.integers(3, size=n)


def differs(**arguments: Any) -> bool:
    """Whether a device that forgot differs from one that never had the samples."""
    device, clean = make(**arguments), make(**arguments)
    device.learn({"ann": samples(1), "bob": samples(2)})
    clean.learn({"bob": samples(2)})
    device.learn({"cem": samples(3)})
    clean.learn({"cem": samples(3)})
    device.forget("ann")
    return state_of(device) != state_of(clean)


@pytest.mark.parametrize("expand", [0, 16])
def test_green_without_a_leak(expand: int):
    assert not differs(expand=expand)


def test_red_with_a_scale_fitted_on_data(monkeypatch):
    seen = []
    honest = Scale.codes

    def codes(self, values):
        seen.append(np.abs(values).max())
        return honest(Scale(-float(max(seen)), float(max(seen)), self.bits), values)

    monkeypatch.setattr(Scale, "codes", codes)
    seen.clear()
    device = make()
    device.learn({"ann": (samples(1)[0] * 100, samples(1)[1]), "bob": samples(2)})
    device.forget("ann")
    seen.clear()
    clean = make()
    clean.learn({"bob": samples(2)})
    assert state_of(device) != state_of(clean)


def test_red_when_features_are_computed_again(monkeypatch):
    """A backbone whose floats depend on the batch: what is subtracted is not what was added."""
    noise = iter(np.random.default_rng(0).integers(2, size=10**6).tolist())
    honest = AdditiveLearner.subtract

    def again(self, state, piece):
        x, y = piece.upload.arrays(piece.positions)
        changed = x.copy()
        changed[:, 0] += np.array([next(noise) for _ in y], dtype=np.uint8)
        upload = type(piece.upload)(piece.upload.user, piece.upload.round, changed, y)
        honest(self, state, type(piece)(upload, upload.positions))

    monkeypatch.setattr(AdditiveLearner, "subtract", again)
    assert differs()


def test_red_with_sums_of_floats(monkeypatch):
    honest_add, honest_subtract = Triangle.add, Triangle.subtract

    def rounded(self, z, sign):
        for panel, start in zip(self._panels, range(0, self.size, 128), strict=True):
            added = panel.astype(np.float32) + np.float32(sign) * (z[:, start:].T @ z[:, start:]).astype(np.float32)
            panel[:] = added[: len(panel)].astype(np.int64)

    monkeypatch.setattr(Triangle, "add", lambda self, z: rounded(self, z, 1))
    monkeypatch.setattr(Triangle, "subtract", lambda self, z: rounded(self, z, -1))
    assert differs(bits=16)
    monkeypatch.setattr(Triangle, "add", honest_add)
    monkeypatch.setattr(Triangle, "subtract", honest_subtract)
    assert not differs(bits=16)


def test_red_when_a_mean_is_kept(monkeypatch):
    means = []
    honest = AdditiveLearner._entries

    def entries(self, codes):
        means.append(int(codes.mean()))
        made = honest(self, codes)
        made[:, :-1] = np.abs(made[:, :-1] - means[0])
        return made

    monkeypatch.setattr(AdditiveLearner, "_entries", entries)
    device = make()
    device.learn({"ann": (samples(1)[0] + 2, samples(1)[1])})
    device.learn({"bob": samples(2)})
    device.forget("ann")
    means.clear()
    clean = make()
    clean.learn({})
    clean.learn({"bob": samples(2)})
    assert state_of(device) != state_of(clean)


def test_red_with_a_projection_drawn_after_the_data(monkeypatch):
    honest = learner_module.AdditiveLearner.add

    def add(self, state, piece):
        if not state.samples:
            first = int(piece.upload.arrays(piece.positions)[0][0, 0])
            self.expansion = Expansion(self.backbone.features, self.scale.largest, 16, seed=first)
        honest(self, state, piece)

    monkeypatch.setattr(AdditiveLearner, "add", add)
    assert differs(expand=16)


def test_red_when_a_forget_subtracts_nothing(monkeypatch):
    monkeypatch.setattr(Adding, "_subtract", lambda self, selection: None)
    assert differs()


def test_red_when_the_clipped_stay_counted(monkeypatch):
    honest = AdditiveLearner.subtract

    def subtract(self, state, piece):
        before = state.clipped
        honest(self, state, piece)
        state.clipped = before

    monkeypatch.setattr(AdditiveLearner, "subtract", subtract)
    assert differs(scale=(-0.1, 0.1))


def test_verify_finds_one_wrong_bit():
    device = make()
    device.learn({"ann": samples(1), "bob": samples(2)})
    assert device.verify().holds
    law = device.engine.training
    assert isinstance(law, Adding)
    law._sums.parts["cross"][0, 0] ^= 1
    assert not device.verify().holds
