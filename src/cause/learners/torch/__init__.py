"""TorchLearner: any network, on the CPU or a GPU, with the same bits each time."""

from cause.learners.torch.batches import batches
from cause.learners.torch.isolation import seed_all
from cause.learners.torch.learner import IMAGE, State, TorchLearner

__all__ = ["IMAGE", "State", "TorchLearner", "batches", "seed_all"]
