"""Settings of a scikit-learn estimator as plain data: numbers, texts, lists, and tables by class."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cause.errors import InputError

ARRAY, NONE = "array", "none"
"""Keys of tables that stand for a numpy array, and for None where that is not the default."""


def normalized(estimator: Any, classes: int) -> Any:
    """Return a new estimator with the same settings: numbers of numpy and labels in tables as those of Python.

    Raises
    ------
    InputError
        If a setting does not fit the number of classes, or would be fitted on data that may be forgotten.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> normalized(SGDClassifier(class_weight={np.int64(0): 1, np.int64(1): np.float64(2.5)}), 2).class_weight
    {0: 1, 1: 2.5}
    >>> normalized(SGDClassifier(class_weight={0: 1.0, 7: 2.0}), 3)
    Traceback (most recent call last):
    cause.errors.InputError: class_weight names class 7, but there are 3 classes (from 0)
    """
    from sklearn.base import clone

    params = {name: _of_python(value) for name, value in estimator.get_params().items()}
    _check_weights(params.get("class_weight"), classes)
    _check_priors(params.get("priors"), "priors", classes)
    _check_priors(params.get("class_prior"), "class_prior", classes)
    if params.get("early_stopping"):
        raise InputError("early_stopping=True holds samples back to decide when to stop: an estimator here needs False")
    changed = {name: value for name, value in params.items() if value is not estimator.get_params()[name]}
    return clone(estimator).set_params(**changed)


def _of_python(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict) and any(isinstance(part, np.generic) for pair in value.items() for part in pair):
        return {_of_python(key): _of_python(part) for key, part in value.items()}
    return value


def _check_weights(weights: Any, classes: int) -> None:
    if weights == "balanced":
        raise InputError(
            "class_weight='balanced' would be fitted on data that may be forgotten: give a weight for each class, as "
            "{0: 1.0, 1: 2.5}"
        )
    if not isinstance(weights, dict):
        return
    for label in weights:
        if label not in range(classes):
            raise InputError(f"class_weight names class {label!r}, but there are {classes} classes (from 0)")
    missing = [label for label in range(classes) if label not in weights]
    if missing:
        raise InputError(f"class_weight has no weight for class {missing[0]}: name all {classes} classes, from 0")


def _check_priors(priors: Any, name: str, classes: int) -> None:
    if priors is None:
        return
    try:
        numbers = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (classes,):
        seen = numbers.tolist() if numbers.size else repr(priors)
        raise InputError(f"{name} are a list of {classes} numbers, one for each class, not {seen}")
    if name == "priors" and not np.isclose(numbers.sum(), 1.0):
        raise InputError(f"{name} are shares that sum to 1, not to {numbers.sum():g}")


def to_plain(estimator: Any) -> dict[str, Any]:
    """Return the settings of an estimator that differ from the defaults as plain data, for `from_plain`.

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
    """Return the settings that `to_plain` wrote; classes in tables become whole numbers, as labels are.

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
