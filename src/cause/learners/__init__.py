"""What trains sub-models."""

from cause.learners.base import Learner
from cause.learners.counting import CountingLearner

__all__ = ["CountingLearner", "Learner"]
