"""Scales: numbers of any size become whole numbers, the same ones on every machine and without a warning."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.errors import ArrivalError, InputError
from cause.learners.additive.scale import Scale
from tests.learners.additive.cases import state_of

HUGE = np.array([[1.7e308, -1.7e308, 1e200, -1e200, 5e-324, 0.0]])
NARROW, FAR = (-1e-5, 1e-5), (1e306, 1.5e306)


def exact(value: float, scale: Scale) -> int:
    """The same by fractions, which round nothing."""
    low, high = Fraction(scale.low), Fraction(scale.high)  # type: ignore[arg-type]
    u = (Fraction(float(value)) - (low + high) / 2) / ((high - low) / 2)
    unit = (u / (1 + abs(u)) + 1) / 2 if scale.squash else min(max((u + 1) / 2, Fraction(0)), Fraction(1))
    return int(unit * scale.largest + Fraction(1, 2))


@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("limits", [NARROW, (-4, 4), FAR])
@pytest.mark.parametrize("squash", [False, True])
def test_huge_numbers_reach_the_ends_of_the_scale(bits: int, limits: tuple[float, float], squash: bool):
    scale = Scale(*limits, bits=bits, squash=squash)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codes, outside = scale.codes(HUGE)
    differences = [int(code) - exact(value, scale) for code, value in zip(codes[0], HUGE[0], strict=True)]
    assert max(map(abs, differences)) <= 1
    low, high = limits
    assert outside.tolist() == [0 if squash else sum(not low <= value <= high for value in HUGE[0])]
    if limits == NARROW:
        middle = (scale.largest + 1) // 2
        assert codes[0].tolist() == [scale.largest, 0, scale.largest, 0, middle, middle]


@pytest.mark.parametrize("squash", [False, True])
def test_clipping_before_or_after_the_division_gives_the_same_numbers(squash: bool):
    draw = np.random.default_rng(0)
    x = draw.normal(scale=3, size=(2_000, 3))
    low, high = np.array([-1.1, 0.3, -7.0]), np.array([0.7, 0.9, 5.0])
    if squash:
        u = (x - (low + high) / 2) / ((high - low) / 2)
        unit = (u / (1 + np.abs(u)) + 1) / 2
    else:
        unit = (x - low) / (high - low)
    expected = np.clip(np.floor(unit * 4_095 + 0.5), 0, 4_095).astype(int)
    codes, _ = Scale(tuple(low), tuple(high), 12, squash).codes(x)
    assert codes.tolist() == expected.tolist()


def test_a_device_forgets_huge_numbers():
    device, clean = (Cause(learner=AdditiveLearner(features=6, scale=NARROW, squash=True, classes=2)) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.learn({"ann": (HUGE, [1]), "bob": (np.ones((3, 6)), [0, 1, 0])})
        device.predict(HUGE)
        device.forget("ann")
    clean.learn({"bob": (np.ones((3, 6)), [0, 1, 0])})
    assert state_of(device) == state_of(clean)


def test_an_extended_float_beyond_float64_is_not_finite():
    values = np.full((1, 2), np.finfo(np.longdouble).max)
    if values.dtype == np.float64:
        pytest.skip("the extended float of this machine is float64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ArrivalError, match="finite"):
            Scale(-1.0, 1.0).codes(values)


@pytest.mark.parametrize("limits", [(-1e308, 1e308), (0, 5e-324), (1.6e308, 1.7e308), ((0, -1.7e308), (1, 1.7e308))])
def test_a_range_that_float64_cannot_divide_by_is_refused(limits):
    with pytest.raises(InputError, match="between low and high") as error:
        Scale(*limits)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"bits": 8.0}, "bits"), ({"squash": "no"}, "squash"), ({"squash": 1}, "squash"), ({"backbone": ""}, "backbone")],
)
def test_settings_of_another_type_are_one_line(arguments: dict, message: str):
    with pytest.raises(InputError, match=message) as error:
        AdditiveLearner(**{"features": 6, "scale": (0, 1), "classes": 2, **arguments})
    assert "\n" not in str(error.value)
