"""TorchLearner: any network, on the CPU or a GPU, with the same bits each time."""

from cause.learners.torch.batches import batches
from cause.learners.torch.isolation import seed_all
from cause.learners.torch.learner import State, TorchLearner
from cause.learners.torch.named import IMAGE

__all__ = ["IMAGE", "State", "TorchLearner", "batches", "seed_all"]
