"""Settings of a scikit-learn estimator as plain data: numbers, texts, lists, and tables by class."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cause.errors import InputError

ARRAY, NONE = "array", "none"
"""Keys of tables that stand for a numpy array, and for None where that is not the default."""


def to_plain(estimator: Any) -> dict[str, Any]:
    """An estimator's settings that are not the default ones, so that `from_plain` gives them back.

    Raises
    ------
    InputError
        If one is of a kind that a configuration cannot hold.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> to_plain(SGDClassifier(penalty=None, class_weight={0: 1.0, 1: 2.5}))
    {'class_weight': {'0': 1.0, '1': 2.5}, 'penalty': {'none': True}}
    """
    usual = type(estimator)().get_params()
    return {
        name: _plain(name, value)
        for name, value in estimator.get_params().items()
        if not _same(value, usual[name]) and not (name == "random_state" and not isinstance(value, int))
    }


def from_plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings again; classes of a table are whole numbers, as labels are.

    >>> from_plain({"class_weight": {"0": 1.0, "1": 2.5}, "priors": {"array": [0.5, 0.5]}, "alpha": 0.1})
    {'class_weight': {0: 1.0, 1: 2.5}, 'priors': array([0.5, 0.5]), 'alpha': 0.1}
    """
    return {name: _value(value) for name, value in settings.items()}


def _plain(name: str, value: Any) -> Any:
    if value is None:
        return {NONE: True}
    if isinstance(value, bool | int | float | str) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype in (np.float64, np.int64):
        return {ARRAY: value.tolist()}
    if isinstance(value, list) and all(type(number) in (int, float) for number in value):
        return list(value)
    if isinstance(value, dict) and value and all(_is_weight(*pair) for pair in value.items()):
        return {str(key): weight for key, weight in value.items()}
    raise InputError(
        f"the setting {name} = {value!r} cannot be written into a home: give plain numbers, texts, a list of numbers, "
        "or a table of a number for each class"
    )


def _is_weight(label: Any, weight: Any) -> bool:
    return type(label) is int and label >= 0 and type(weight) in (int, float)


def _value(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) == {NONE}:
        return None
    if set(value) == {ARRAY}:
        return np.array(value[ARRAY])
    return {int(key) if str(key).isdigit() else key: each for key, each in value.items()}


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(np.all(one == other))
