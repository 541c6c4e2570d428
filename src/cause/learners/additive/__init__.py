"""The additive learner: features of a frozen backbone as integers, sums over the samples, a head solved from the sums.

To forget samples is to subtract them (`cause.engine.adding`), so nothing is ever trained again.
"""

from cause.learners.additive.learner import AdditiveLearner
from cause.learners.additive.scale import public_scale

__all__ = ["AdditiveLearner", "public_scale"]
