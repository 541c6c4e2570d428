"""safetensors: a complete state dict a head, frozen parts included, without masks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save_file

from cause.device.exports.head import Head

if TYPE_CHECKING:
    from cause.device.device import Cause


def write(device: "Cause", target: Path, heads: Sequence[Head]) -> tuple[str, ...]:
    """Write the state dict of each head to a file of its own."""
    files = []
    for head in heads:
        network = device.learner.network(head.state)
        tensors = {name: tensor.cpu().contiguous().clone() for name, tensor in network.state_dict().items()}
        files.append(f"{head.name}.safetensors")
        save_file(tensors, str(target / files[-1]))
    return tuple(files)
