"""A pruned network is rebuilt from the widths of its stored tensors: no pickle, no replay of what was removed."""

from collections.abc import Mapping

import torch
from torch import nn


def shrink(network: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Give each layer of a freshly made network the widths that its stored tensors have.

    >>> network = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    >>> shrink(network, {"0.weight": torch.zeros(3, 4), "0.bias": torch.zeros(3), "1.weight": torch.zeros(2, 3)})
    >>> network[0].out_features, network[1].in_features
    (3, 3)
    """
    for path, module in network.named_modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            stored = state.get(f"{path}.{name}" if path else name)
            if stored is None or stored.shape == tensor.shape:
                continue
            if isinstance(tensor, nn.Parameter):
                setattr(module, name, nn.Parameter(tensor.new_empty(stored.shape), tensor.requires_grad))
            else:
                setattr(module, name, tensor.new_empty(stored.shape))
        _tell_widths(module)


def _tell_widths(module: nn.Module) -> None:
    """What a layer says of itself follows from its weights."""
    if isinstance(module, nn.Conv2d):
        if module.groups > 1 and module.groups == module.in_channels:  # one filter for each channel
            module.groups = module.weight.shape[0]
        module.out_channels = module.weight.shape[0]
        module.in_channels = module.weight.shape[1] * module.groups
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, nn.modules.batchnorm._BatchNorm) and module.weight is not None:
        module.num_features = module.weight.shape[0]
