"""Learners, which train sub-models: counting, scikit-learn, torch, and additive ones."""

from cause.engine.learner import Learner
from cause.learners.counting import CountingLearner

__all__ = ["CountingLearner", "Learner"]
