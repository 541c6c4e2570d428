"""Two membership-inference attacks. A higher score means that the model more likely was trained on the sample.

They take probabilities (one row a sample, one column a class) and the uploaded labels, so every model that returns
probabilities can be audited. Neither attack trains a model.
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
"""Replaces a probability that a network rounded to 0, so that its logarithm is finite."""
ROUNDING = 1e-3
"""How far the sum of a row may be from 1; otherwise it is refused as not being probabilities."""


def loss_scores(probabilities: ArrayLike, labels: ArrayLike) -> Scores:
    """Return the scores of the loss-threshold attack: minus the cross-entropy loss of each sample's label.

    >>> loss_scores([[0.5, 0.5], [1.0, 0.0]], [1, 0]).round(2).tolist()
    [-0.69, 0.0]
    """
    return np.asarray(np.log(np.maximum(_of_label(probabilities, labels), LEAST)))


def calibrated_scores(suspect: ArrayLike, references: Sequence[ArrayLike], labels: ArrayLike) -> Scores:
    """Return the scores of the calibrated attack: the label's probability minus its mean over reference models.

    The references never saw the sample, so their mean shows how easy the sample is for any model. Probabilities are
    compared, not their logarithms: those of overtrained networks differ by tens where nothing was memorised, and a few
    references would hide the signal.

    Parameters
    ----------
    suspect
        The probabilities of the audited model.
    references
        The probabilities of models that never saw the samples.
    labels
        The uploaded labels.

    Raises
    ------
    InputError
        If there is no reference, or something is not probabilities.

    Examples
    --------
    >>> suspect, reference = [[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.2, 0.8]]
    >>> calibrated_scores(suspect, [reference], [0, 0]).round(2).tolist()
    [0.0, 0.7]
    """
    if not len(references):
        raise InputError("the calibrated attack needs a reference: the answers of a model that never saw the samples")
    expected = np.mean([_of_label(reference, labels) for reference in references], axis=0)
    return np.asarray(_of_label(suspect, labels) - expected)


def attack(heads: Mapping[int, ArrayLike], labels: ArrayLike, shards: ArrayLike) -> dict[str, Scores]:
    """Return the scores of both attacks on an ensemble: "loss" on the mean of all heads, "calibrated" on each shard.

    Shards are disjoint, so the heads of other shards never saw a sample: they are its references. If no head votes for
    a sample's shard, nothing can be learned about the sample, and it scores 0.

    Parameters
    ----------
    heads
        The probabilities of each shard that votes.
    labels
        The uploaded labels.
    shards
        For each sample, the shard that holds it, or would hold it if it had been uploaded.

    Raises
    ------
    InputError
        If fewer than two shards vote, or the parts do not fit together.

    Examples
    --------
    >>> heads = {0: [[0.9, 0.1], [0.5, 0.5]], 1: [[0.5, 0.5], [0.5, 0.5]]}
    >>> {name: scores.round(2).tolist() for name, scores in attack(heads, [0, 0], [0, 1]).items()}
    {'loss': [-0.36, -0.69], 'calibrated': [0.4, 0.0]}
    """
    if len(heads) < 2:
        raise InputError(
            f"the audit needs at least 2 shards that vote, not {len(heads)}: the others are references; "
            "for a single model give calibrated_scores another one that never saw the samples"
        )
    labels_, shard_of = np.asarray(labels), np.asarray(shards)
    if shard_of.shape != labels_.shape:
        raise InputError(f"each sample needs a shard: {len(labels_)} labels and {len(shard_of)} shards were given")
    probabilities = {shard: _checked(of_shard, labels_) for shard, of_shard in heads.items()}
    calibrated = np.zeros(len(labels_))
    for shard, of_shard in probabilities.items():
        in_shard = shard_of == shard
        others = [other[in_shard] for name, other in probabilities.items() if name != shard]
        calibrated[in_shard] = calibrated_scores(of_shard[in_shard], others, labels_[in_shard])
    mean = np.mean(list(probabilities.values()), axis=0)
    return {"loss": loss_scores(mean, labels_), "calibrated": calibrated}


def head_probabilities(device: "Cause", x: Any) -> dict[int, Probabilities]:
    """Return the probabilities of each voting sub-model for these samples, by shard."""
    learner, shelf = device.learner, device.memory.shelf
    return {shard: learner.predict(learner.decode(shelf.get(head.key)), x) for shard, head in device.heads().items()}


def _of_label(probabilities: ArrayLike, labels: ArrayLike) -> Scores:
    labels_ = np.asarray(labels)
    return np.asarray(_checked(probabilities, labels_)[np.arange(len(labels_)), labels_])


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
