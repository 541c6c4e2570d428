"""Rebuilds a pruned network from the shapes of its stored tensors, without pickle and without pruning it again."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd


def shrink(network: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Give each layer of a new network the widths of its stored tensors.

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
    """Set the widths that a layer names to those of its weights."""
    if isinstance(module, _ConvNd):
        if module.groups > 1 and module.groups == module.in_channels:  # one filter, or several, for each channel
            several = module.out_channels // module.groups
            module.groups = module.weight.shape[0] // (1 if module.transposed else several)
        inputs, outputs = (0, 1) if module.transposed else (1, 0)
        module.out_channels = module.weight.shape[outputs] * (module.groups if module.transposed else 1)
        module.in_channels = module.weight.shape[inputs] * (1 if module.transposed else module.groups)
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, _NormBase):
        features = module.weight if module.weight is not None else module.running_mean
        module.num_features = module.num_features if features is None else features.shape[0]
    elif isinstance(module, nn.LayerNorm) and module.weight is not None:
        module.normalized_shape = tuple(module.weight.shape)
    elif isinstance(module, nn.GroupNorm) and module.weight is not None:
        module.num_channels = module.weight.shape[0]
    elif isinstance(module, nn.Embedding):
        module.num_embeddings, module.embedding_dim = module.weight.shape
    elif isinstance(module, nn.PReLU):
        module.num_parameters = module.weight.shape[0]
