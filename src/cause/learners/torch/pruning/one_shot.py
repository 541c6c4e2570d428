"""OMP, one-shot magnitude pruning: the smallest weights are masked once, in a shard's first training."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

MASK, VALUES, SHAPE = "#mask", "#values", "#shape"
NOTHING = (
    "no weight of this network can be masked, since no Linear and no Conv2d layer of it learns: it is trained whole, "
    "as with pruning=none in the system"
)


def layers(network: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """Return the layers whose weights can be masked, by name."""
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d) and module.weight.requires_grad
    }


def choose(network: nn.Module, share: float) -> dict[str, torch.Tensor]:
    """Return masks (True: kept) that leave out the smallest weights of each convolution and linear layer.

    Layer by layer: over the whole network, layers with small initial weights would be emptied when little was trained.

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> layer.weight.data = torch.tensor([[0.1, -4.0], [3.0, 0.2]])
    >>> choose(nn.Sequential(layer), 0.5)["0.weight"]
    tensor([[False,  True],
            [ True, False]])
    """
    masks = {}
    for name, module in layers(network).items():
        sizes = module.weight.detach().abs().flatten()
        kept = torch.ones(len(sizes), dtype=torch.bool, device=sizes.device)
        kept[torch.argsort(sizes, stable=True)[: int(share * len(sizes))]] = False
        masks[f"{name}.weight" if name else "weight"] = kept.view_as(module.weight)
    return masks


def apply(network: nn.Module, masks: Mapping[str, torch.Tensor]) -> None:
    """Set the masked weights to zero."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in masks:
                parameter.masked_fill_(~masks[name], 0.0)


def pack(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a state without its masked weights: one bit for each weight, and the values that are kept."""
    packed = {}
    for name, tensor in state.items():
        if name.endswith(MASK):
            packed[name] = torch.from_numpy(np.packbits(tensor.numpy()))
        elif name + MASK in state:
            packed[name + VALUES] = tensor[state[name + MASK]]
            packed[name + SHAPE] = torch.tensor(tensor.shape)
        else:
            packed[name] = tensor
    return packed


def unpack(packed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the state that `pack` packed.

    >>> state = {"w": torch.tensor([0.0, 2.0, 0.0]), "w#mask": torch.tensor([True, True, False])}
    >>> again = unpack(pack(state))
    >>> {name: tensor.tolist() for name, tensor in again.items()}  # a kept zero stays kept
    {'w': [0.0, 2.0, 0.0], 'w#mask': [True, True, False]}
    """
    state = {}
    for name, tensor in packed.items():
        if name.endswith(VALUES):
            parameter = name.removesuffix(VALUES)
            shape = tuple(packed[parameter + SHAPE].tolist())
            bits = np.unpackbits(packed[parameter + MASK].numpy(), count=int(np.prod(shape))).astype(bool)
            mask = torch.from_numpy(bits).view(shape)
            state[parameter] = torch.zeros(shape, dtype=tensor.dtype).masked_scatter(mask, tensor)
            state[parameter + MASK] = mask
        elif not name.endswith((MASK, SHAPE)):
            state[name] = tensor
    return state
