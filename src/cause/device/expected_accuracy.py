"""The accuracy that a device with an additive learner can expect, without data that is held out."""

from cause.device.device import Cause
from cause.errors import InputError
from cause.learners.additive import AdditiveLearner
from cause.learners.additive.leave_one_out import LeaveOneOut, leave_one_out


def expected_accuracy(device: Cause) -> LeaveOneOut:
    """Predict every held sample from all others (leave-one-out). Changes nothing.

    Samples that arrive or are forgotten meanwhile wait: the device's lock is held.

    Raises
    ------
    InputError
        If the learner is not an additive one: leaving a sample out would mean to train again.

    Examples
    --------
    >>> device = Cause(learner=AdditiveLearner(features=1, scale=(0, 10), classes=2))
    >>> learned = device.learn({"ann": ([[1], [2], [3], [7], [8], [9]], [0, 0, 0, 1, 1, 1])})
    >>> expected_accuracy(device).accuracy
    1.0
    """
    learner = device.learner
    if not isinstance(learner, AdditiveLearner):
        raise InputError(f"the accuracy without held-out data is for an additive learner, not a {learner.type_name}")
    with device.lock:
        device.held.look()
        device.engine.training.prepare()
        head = device.memory.head(0)
        if head is None:
            return LeaveOneOut(0, 0)
        sums = learner.decode(device.memory.shelf.get(head.key))
        pieces = (piece for segment in device.ledger.lineage(0) for piece in segment.pieces)
        return leave_one_out(learner, sums, pieces)
