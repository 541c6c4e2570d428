"""ONNX: all heads, the scaling of inputs and the vote in one graph."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from cause.device.exports.head import Head
from cause.errors import InputError, LearnerError
from cause.learners.torch.data import scaling

if TYPE_CHECKING:
    from cause.device.device import Cause
    from cause.learners.recipe import Recipe

FILE = "ensemble.onnx"


class Ensemble(nn.Module):
    """A network of all heads: from inputs as they are stored to the voted label and each head's probabilities.

    Parameters
    ----------
    networks
        The heads' networks.
    weights
        How much each counts in a weighted vote.
    vote
        The name of the vote.
    recipe
        Says how inputs are scaled, and how many classes there are.
    """

    def __init__(self, networks: Sequence[nn.Module], weights: Sequence[float], vote: str, recipe: "Recipe") -> None:
        super().__init__()
        self.networks, self.vote, self.whole = nn.ModuleList(networks), vote, recipe.input_dtype == "int64"
        self.mean, self.std = scaling(recipe, torch.device("cpu"))
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float32))
        self.register_buffer("labels", torch.arange(recipe.classes))

    weights: torch.Tensor
    labels: torch.Tensor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = x if self.whole else (x - self.mean) / self.std
        probabilities = torch.stack([torch.softmax(network(scaled), dim=1) for network in self.networks])
        return self._agree(probabilities), probabilities

    def _agree(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Return the voted labels, as `cause.engine.voting` computes them."""
        if self.vote == "soft":
            return probabilities.sum(dim=0).argmax(dim=1)
        if self.vote == "weighted-soft":
            return (probabilities * self.weights[:, None, None]).sum(dim=0).argmax(dim=1)
        if self.vote == "max-confidence":
            return probabilities.amax(dim=0).argmax(dim=1)
        weights = self.weights if self.vote == "weighted" else torch.ones_like(self.weights)
        chosen = probabilities.argmax(dim=2).unsqueeze(2) == self.labels
        votes = (chosen.to(probabilities.dtype) * weights[:, None, None]).sum(dim=0)
        tied = votes == votes.amax(dim=1, keepdim=True)
        total = probabilities.sum(dim=0)
        return torch.where(tied, total, torch.full_like(total, -1.0)).argmax(dim=1)


def write(device: "Cause", target: Path, heads: Sequence[Head]) -> tuple[str, ...]:
    """Write one file with all heads, the scaling and the vote."""
    for module in ("onnx", "onnxscript"):
        if find_spec(module) is None:
            raise InputError(f"an export to ONNX needs {module}: pip install 'cause[onnx]'")
    learner = device.learner
    recipe = learner.recipe
    networks = [learner.network(head.state).cpu() for head in heads]
    weights = [float(head.weight) for head in heads]
    ensemble = Ensemble(networks, weights, device.system.vote, recipe).eval()
    kind = torch.int64 if recipe.input_dtype == "int64" else torch.float32
    try:
        with _quiet():
            program = torch.onnx.export(
                ensemble,
                (torch.zeros(2, *recipe.shape, dtype=kind),),
                input_names=["x"],
                output_names=["label", "probabilities"],
                dynamic_shapes={"x": {0: torch.export.Dim("samples")}},
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever it trips over in a user's network
        first = (str(error).splitlines() or [""])[0]
        raise LearnerError(f"the network cannot be written as ONNX: {first}") from None
    if program is None:
        raise LearnerError("torch.onnx.export returned nothing for this network: export it with --form safetensors")
    program.save(str(target / FILE))
    return (FILE, *sorted(path.name for path in target.iterdir() if path.name != FILE))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which warns and logs about its own affairs."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
