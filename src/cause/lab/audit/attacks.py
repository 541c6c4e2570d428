"""Two attacks. Each gives a score for every sample: the higher, the more it looks as if the model had seen it.

They take probabilities (one row a sample, one column a class) and the labels that were uploaded, so anything that
answers with probabilities can be audited. Neither trains a model of its own.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.device import Cause

Probabilities = NDArray[np.floating]
Scores = NDArray[np.float64]

LEAST = float(np.finfo(np.float32).tiny)
"""Stands for a probability that a network rounded to 0, so that its logarithm is a number."""
ROUNDING = 1e-3
"""How far a row's sum may be from 1 before it is taken for something other than probabilities."""


def loss_scores(probabilities: ArrayLike, labels: ArrayLike) -> Scores:
    """The loss-threshold attack: minus the cross-entropy loss of each sample's label.

    >>> loss_scores([[0.5, 0.5], [1.0, 0.0]], [1, 0]).round(2).tolist()
    [-0.69, 0.0]
    """
    return np.asarray(np.log(np.maximum(_of_label(probabilities, labels), LEAST)))


def calibrated_scores(suspect: ArrayLike, references: Sequence[ArrayLike], labels: ArrayLike) -> Scores:
    """The calibrated attack: how much more probable the label is to the suspect than to models that never saw it.

    A sample that every model finds easy (or hard) says nothing about who saw it: the references' mean probability is
    what its label is worth to a model that did not. Probabilities are compared, not their logarithms: those of
    overtrained networks differ by tens where nothing was memorised, and a few references would drown the signal.

    >>> suspect, reference = [[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.2, 0.8]]
    >>> calibrated_scores(suspect, [reference], [0, 0]).round(2).tolist()
    [0.0, 0.7]
    """
    if not len(references):
        raise InputError("the calibrated attack needs a reference: the answers of a model that never saw the samples")
    expected = np.mean([_of_label(reference, labels) for reference in references], axis=0)
    return np.asarray(_of_label(suspect, labels) - expected)


def attack(heads: Mapping[int, ArrayLike], labels: ArrayLike, shards: ArrayLike) -> dict[str, Scores]:
    """Both attacks on what serves: "loss" on the mean of all answers, "calibrated" on each sample's own shard.

    `heads` are the answers of each shard that votes; `shards` names, for each sample, the shard that holds it, or would
    hold it had it been uploaded. Shards are disjoint, so the other shards' heads never saw the sample: they are its
    references. Where nothing votes for a sample's shard, nothing is to be learned about it, and it scores 0.

    >>> heads = {0: [[0.9, 0.1], [0.5, 0.5]], 1: [[0.5, 0.5], [0.5, 0.5]]}
    >>> {name: scores.round(2).tolist() for name, scores in attack(heads, [0, 0], [0, 1]).items()}
    {'loss': [-0.36, -0.69], 'calibrated': [0.4, 0.0]}
    """
    if len(heads) < 2:
        raise InputError(
            f"the audit needs at least 2 shards that vote, not {len(heads)}: the others are references; "
            "for a single model give calibrated_scores another one that never saw the samples"
        )
    given, home = np.asarray(labels), np.asarray(shards)
    if home.shape != given.shape:
        raise InputError(f"each sample needs a shard: {len(given)} labels and {len(home)} shards were given")
    answers = {shard: _checked(answer, given) for shard, answer in heads.items()}
    calibrated = np.zeros(len(given))
    for shard, answer in answers.items():
        own = home == shard
        others = [other[own] for name, other in answers.items() if name != shard]
        calibrated[own] = calibrated_scores(answer[own], others, given[own])
    mean = np.mean(list(answers.values()), axis=0)
    return {"loss": loss_scores(mean, given), "calibrated": calibrated}


def ask(device: "Cause", x: Any) -> dict[int, Probabilities]:
    """What each sub-model that votes now says of these samples, by shard: a head, or what stands in for it."""
    learner, shelf = device.learner, device.memory.shelf
    return {shard: learner.predict(learner.decode(shelf.get(head.key)), x) for shard, head in device.heads().items()}


def _of_label(probabilities: ArrayLike, labels: ArrayLike) -> Scores:
    given = np.asarray(labels)
    return np.asarray(_checked(probabilities, given)[np.arange(len(given)), given])


def _checked(probabilities: ArrayLike, labels: NDArray[Any]) -> Scores:
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or labels.shape != table.shape[:1]:
        raise InputError(
            f"probabilities of shape {table.shape} and labels of shape {labels.shape}: one row and one label a sample"
        )
    if not len(labels):
        return table
    if labels.dtype.kind not in "ui":
        raise InputError(f"labels must be whole numbers, not {labels.dtype}")
    if labels.min() < 0 or labels.max() >= table.shape[1]:
        beyond = labels.min() if labels.min() < 0 else labels.max()
        raise InputError(f"labels are from 0 to {table.shape[1] - 1}, not {beyond}")
    sums = table.sum(axis=1)
    wrong = ~((table.min(axis=1) >= 0) & (np.abs(sums - 1) <= ROUNDING))  # true where one is not a number, too
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"probabilities are not negative and sum to 1: sample {row} has a least of {table[row].min():.4g} and a "
            f"sum of {sums[row]:.4g}"
        )
    return table
