"""What trains sub-models."""

from cause.engine.learner import Learner
from cause.learners.counting import CountingLearner

__all__ = ["CountingLearner", "Learner"]
