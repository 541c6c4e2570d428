"""A learner that takes its time, in small steps, so that something can happen meanwhile."""

from cause.engine.progress import silent
from cause.learners.sklearn import SklearnLearner
from tests.device.homes import CLASSES, FEATURES
from tests.waiting import pass_time

STEPS = 50


class SlowLearner(SklearnLearner):
    """Naive Bayes, after a while, with the samples in memory all the time; it reports each step as an epoch."""

    def __init__(self, seconds: float = 1.0, classes: int = CLASSES, features: int = FEATURES) -> None:
        from sklearn.naive_bayes import GaussianNB

        super().__init__(GaussianNB(), classes=classes, features=features)
        self.seconds = seconds

    def train(self, parent, lesson, seed, tick=silent):
        for step in range(STEPS):
            pass_time(self.seconds / STEPS)
            tick(step, STEPS)
        return super().train(parent, lesson, seed, silent)
