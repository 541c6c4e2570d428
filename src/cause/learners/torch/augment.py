"""Random crops and flips. Each device draws from its own generator, so that a GPU never waits for the host."""

import torch
from torch import nn

PAD = 4


def crop_flip(x: torch.Tensor, pad: int = PAD) -> torch.Tensor:
    """Shift each image by up to `pad` pixels and mirror half of them at random; the CPU's generator draws."""
    count, _, height, width = x.shape
    padded = nn.functional.pad(x, (pad, pad, pad, pad))
    shifts = torch.randint(0, 2 * pad + 1, (2, count))
    mirror = torch.rand(count) < 0.5
    rows = (shifts[0][:, None] + torch.arange(height)).to(x.device)
    columns = torch.arange(width).expand(count, width).clone()
    columns[mirror] = columns[mirror].flip(1)
    columns = (shifts[1][:, None] + columns).to(x.device)
    index = torch.arange(count, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def crop_flip_rows(x: torch.Tensor, pad: int = PAD) -> torch.Tensor:
    """Do the same as `crop_flip` to images with channels last; the generator of their own device draws."""
    count, height, width, channels = x.shape
    padded = nn.functional.pad(x, (0, 0, pad, pad, pad, pad))
    down = torch.randint(0, 2 * pad + 1, (count, 1), device=x.device)
    across = torch.randint(0, 2 * pad + 1, (count, 1), device=x.device)
    mirror = torch.rand((count, 1), device=x.device) < 0.5
    rows, columns = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    columns = torch.where(mirror, width - 1 - columns, columns) + across
    index = (rows + down)[:, :, None] * (width + 2 * pad) + columns[:, None, :]
    flat = padded.view(count, -1, channels)
    return flat.gather(1, index.view(count, -1, 1).expand(-1, -1, channels)).view_as(x)
