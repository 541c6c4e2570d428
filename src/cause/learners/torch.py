"""TorchLearner: any network, trained as a pure function of parent, samples, seed and recipe."""

import copy
import os
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cause import codec
from cause.errors import InputError, LearnerError
from cause.keyed import derive, digest
from cause.learners.base import check_labels
from cause.models import factory
from cause.positions import Positions
from cause.presets import System
from cause.progress import Tick, silent
from cause.pruning import one_shot
from cause.pruning.widths import shrink
from cause.recipe import Recipe
from cause.samples import Lesson, Piece, Upload

if TYPE_CHECKING:
    from cause.pruning.iterative import IterativePruner

State = dict[str, torch.Tensor]
IMAGE = (3, 32, 32)
"""The shape of an input when none is given: the paper's images."""


class _WithData(Protocol):
    def arrays(self, positions: Positions) -> tuple[NDArray[Any], NDArray[np.int64]]: ...


@dataclass(frozen=True)
class _Data:
    x: torch.Tensor
    y: torch.Tensor
    pieces: Sequence[Piece]

    def order(self, key: bytes) -> torch.Tensor:
        """A shuffle that depends on nothing but the key and each sample's id."""
        hashes = np.concatenate([upload.hashes(key, positions) for upload, positions in self.pieces])
        return torch.from_numpy(np.argsort(hashes, kind="stable"))


class TorchLearner:
    """Trains the network of a recipe, one segment after the other.

    Every generator is seeded from (root, shard, round, slice, epoch), the optimizer is fresh for each segment, samples
    come in the order of a keyed hash of their ids, and training starts from decoded bytes. Parameters that the factory
    freezes (`requires_grad=False`) belong to a public part: its modules stay in eval mode, and it is not stored in the
    sub-models.

    Parameters
    ----------
    recipe
        What to train and how; or a model (a name of ours, `package.module:function`, or a function that is called with
        (classes, shape)), and then the recipe's other parts by name.
    make
        A factory for the recipe's model, when it is not importable by name.
    device
        Where to train: "cpu", "cuda", "mps".
    threads
        Threads of the CPU. Another number gives other bits, so it is part of the environment.

    Examples
    --------
    >>> TorchLearner("cnn", classes=10, shape=(1, 8, 8), epochs=5).recipe.epochs
    5
    """

    def __init__(
        self,
        recipe: Recipe | str | Callable[..., nn.Module],
        *,
        make: Callable[..., nn.Module] | None = None,
        device: str = "cpu",
        threads: int = 1,
        **parts: Any,
    ) -> None:
        if not isinstance(recipe, Recipe):
            make = make if isinstance(recipe, str) else recipe
            recipe = _recipe(recipe, parts)
        elif parts:
            raise InputError(f"the recipe is given whole, so {sorted(parts)[0]!r} belongs into it")
        if threads < 1:
            raise InputError(f"the number of threads must be at least 1, not {threads}")
        self.device, self.threads = _device(device), threads
        self._make = make or factory(recipe.model)
        self._given = recipe
        self._settle(recipe.settled)

    def _settle(self, recipe: Recipe) -> None:
        self.recipe = recipe
        with self._isolated(digest("frozen parts")):
            network = self._build()
        self._frozen = {
            name: tensor.clone() for name, tensor in network.state_dict().items() if name in _frozen(network)
        }
        described = [
            (name, str(tensor.dtype), tuple(tensor.shape)) for name, tensor in sorted(network.state_dict().items())
        ]
        self._digest = digest(recipe.digest, str(described), codec.state_digest(self._frozen))
        self._bytes = _target_bytes(recipe, [t for name, t in network.state_dict().items() if name not in self._frozen])

    def described(self) -> dict[str, Any]:
        """The learner as plain data, for a configuration."""
        if self._make is not factory(self._given.model):
            raise InputError(f"the model {self._given.model!r} cannot be imported by name")
        parts = {f.name: getattr(self._given, f.name) for f in fields(Recipe)}
        parts["shape"], parts["options"] = list(self._given.shape), dict(self._given.options)
        told = {"kind": "torch", **{name: value for name, value in parts.items() if value not in (None, {})}}
        return told | {"device": self.device.type, "threads": self.threads}

    def composed(self, system: System) -> "TorchLearner":
        """The learner with the pruning and precision of a system."""
        composed = self._given.composed(system)
        if composed == self.recipe:
            return self
        learner = copy.copy(self)
        learner._settle(composed.settled)
        return learner

    @property
    def classes(self) -> int:
        return self.recipe.classes

    @property
    def recipe_digest(self) -> bytes:
        return self._digest

    @property
    def environment(self) -> str:
        """What bits depend on, besides the recipe."""
        parts = [f"torch {torch.__version__}", str(self.device.type), f"{self.threads} threads", platform.machine()]
        if self.device.type == "cpu":
            parts += [torch.backends.cpu.get_cpu_capability(), f"mkldnn {torch.backends.mkldnn.is_available()}"]
        elif self.device.type == "cuda":
            parts += [torch.cuda.get_device_name(self.device), f"cuda {torch.version.cuda}"]
        return ", ".join(parts)

    @property
    def sub_model_bytes(self) -> int:
        return self._bytes

    # Training

    def check(self, upload: Upload) -> None:
        check_labels(upload, self.recipe.classes)
        x, _ = cast(_WithData, upload).arrays(upload.positions[:1])
        self._inputs(x, whose=f" of user {upload.user!r}")

    def train(self, parent: State | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> State:
        with self._isolated(derive(seed, "init")):
            network, masks = self._build(parent), _masks(parent)
            data = self._data([*lesson.pieces, *lesson.rehearsed])
            masks = self._fit(network, data, seed, masks, tick, first=parent is None)
            return self._state(network, masks)

    def _fit(self, network: nn.Module, data: _Data, seed: bytes, masks: State, tick: Tick, *, first: bool) -> State:
        recipe, count = self.recipe, len(data.y)
        cuts = batches(count, recipe.batch_size)
        pruner = self._pruner(network, data) if first and recipe.pruning == "iterative" else None
        prune_at = _prune_at(recipe) if first else {}
        _train_mode(network, alone=count == 1)
        optimizer, schedule = self._fresh(network, len(cuts) * recipe.epochs)
        for epoch in range(recipe.epochs):
            if epoch in prune_at:
                masks = self._prune(network, pruner, prune_at[epoch])
                # filters are gone or weights are masked: what the optimizer knew of them goes too
                optimizer, schedule = self._fresh(network, len(cuts) * (recipe.epochs - epoch))
            seed_all(derive(seed, "epoch", epoch))
            order = data.order(derive(seed, "order", epoch)).to(self.device)
            for start, stop in cuts:
                chosen = order[start:stop]
                x = data.x[chosen]
                if recipe.augmentation == "crop-flip":
                    x = crop_flip(x)
                optimizer.zero_grad(set_to_none=True)
                loss = nn.functional.cross_entropy(network(x), data.y[chosen])
                loss.backward()
                optimizer.step()
                schedule.step()
                one_shot.apply(network, masks)
            tick(epoch + 1, recipe.epochs)
        return masks

    def _fresh(self, network: nn.Module, steps: int) -> tuple[torch.optim.Optimizer, Any]:
        optimizer = _optimizer(self.recipe, [p for p in network.parameters() if p.requires_grad])
        return optimizer, _schedule(self.recipe, optimizer, steps)

    def _pruner(self, network: nn.Module, data: _Data) -> "IterativePruner":
        from cause.pruning.iterative import IterativePruner

        recipe = self.recipe
        return IterativePruner(network, data.x[:2], importance=recipe.importance, round_to=recipe.round_to)

    def _prune(self, network: nn.Module, pruner: "IterativePruner | None", share: float) -> State:
        if pruner is not None:
            pruner.prune_to(share)
            return {}
        masks = one_shot.choose(network, share)
        one_shot.apply(network, masks)
        return masks

    def _data(self, pieces: Sequence[Piece]) -> _Data:
        arrays = [cast(_WithData, upload).arrays(positions) for upload, positions in pieces]
        y = np.concatenate([labels for _, labels in arrays])
        return _Data(self._inputs(np.concatenate([x for x, _ in arrays])), torch.from_numpy(y).to(self.device), pieces)

    def _inputs(self, x: NDArray[Any], whose: str = "") -> torch.Tensor:
        shape = self.recipe.shape
        if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]) and x.shape[1:] != shape:
            x = np.moveaxis(x, -1, 1)  # images as most tools hold them: height, width, channels
        if len(x) and int(np.prod(x.shape[1:])) != int(np.prod(shape)):
            raise InputError(f"inputs{whose} of shape {x.shape[1:]} do not fit the recipe's {shape}")
        own = torch.tensor(np.ascontiguousarray(x, dtype=np.float32)).reshape(-1, *shape)  # a copy: x is the caller's
        return own.sub_(self.recipe.mean).div_(self.recipe.std).to(self.device)

    def _build(self, state: State | None = None) -> nn.Module:
        network = self._make(self.recipe.classes, self.recipe.shape, **dict(self.recipe.options))
        if state is not None:
            wanted = {**self._frozen, **{n: t for n, t in state.items() if not n.endswith(one_shot.MASK)}}
            if self.recipe.pruning == "iterative":
                shrink(network, wanted)
            missing = set(network.state_dict()) ^ set(wanted)
            if missing:
                raise LearnerError(f"the stored sub-model does not fit the recipe: {sorted(missing)[0]!r} is one-sided")
            network.load_state_dict(wanted)
        return network.to(self.device)

    def _state(self, network: nn.Module, masks: State) -> State:
        kept = {name: t for name, t in network.state_dict().items() if name not in self._frozen}
        if self.recipe.precision == "bf16":
            kept = {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in kept.items()}
        for name, tensor in kept.items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise LearnerError(f"training diverged: {name} is no longer finite (lower the learning rate?)")
        kept |= {name + one_shot.MASK: mask for name, mask in masks.items()}
        return {name: tensor.detach().cpu().clone() for name, tensor in kept.items()}

    @contextmanager
    def _isolated(self, seed: bytes) -> Iterator[None]:
        """One thread, deterministic algorithms, every generator seeded; the caller's are as before afterwards."""
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
        states = random.getstate(), np.random.get_state()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            try:
                torch.set_num_threads(self.threads)
                torch.use_deterministic_algorithms(True)
                seed_all(seed)
                yield
            finally:
                torch.use_deterministic_algorithms(strict)
                torch.set_num_threads(threads)
                random.setstate(states[0])
                np.random.set_state(states[1])

    # Prediction and storage

    def network(self, state: State) -> nn.Module:
        """A state as a network that answers, frozen parts included; for inputs that are scaled already."""
        with self._isolated(digest("predict")):
            return self._build({name: t.float() if t.is_floating_point() else t for name, t in state.items()}).eval()

    def predict(self, state: State, x: Any) -> NDArray[np.floating]:
        network = self.network(state)
        with self._isolated(digest("predict")), torch.no_grad():
            inputs = self._inputs(np.asarray(x))
            parts = [torch.softmax(network(part), dim=1).cpu() for part in inputs.split(1024)]
        return torch.cat(parts).numpy()

    def encode(self, state: State) -> bytes:
        return codec.encode(one_shot.pack(state))

    def decode(self, blob: bytes) -> State:
        state = one_shot.unpack(codec.decode(blob))
        return {name: t.float() if t.dtype == torch.bfloat16 else t for name, t in state.items()}

    def stored_bytes(self, blob: bytes) -> int:
        return len(blob)


def _recipe(model: str | Callable[..., nn.Module], parts: dict[str, Any]) -> Recipe:
    name = model if isinstance(model, str) else f"{model.__module__}:{getattr(model, '__qualname__', model)}"
    try:
        return Recipe(name, **{"shape": IMAGE, **parts})
    except TypeError as error:
        raise InputError(f"not a recipe: {str(error).removeprefix('Recipe.__init__() ')}") from None


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot train on {name!r}: {str(error).splitlines()[0]}") from None
    return device


def _target_bytes(recipe: Recipe, tensors: Sequence[torch.Tensor]) -> int:
    """Size of a sub-model, uncompressed, when the recipe's pruning has reached its target."""
    numbers = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    others = sum(tensor.numel() * tensor.element_size() for tensor in tensors if not tensor.is_floating_point())
    left = 1.0 if recipe.pruning == "none" else 1 - (recipe.target or 0)
    bits = numbers // 8 if recipe.pruning == "one-shot" else 0
    return max(1, round(numbers * left) * (2 if recipe.precision == "bf16" else 4) + bits + others)


def _prune_at(recipe: Recipe) -> dict[int, float]:
    """The epochs of a first segment before which something is pruned, and the share that is gone then."""
    if recipe.pruning == "none" or recipe.target is None:
        return {}
    if recipe.pruning == "one-shot":
        return {recipe.epochs // 2: recipe.target}
    steps = min(recipe.steps, max(1, recipe.epochs - 1))
    return {(step + 1) * recipe.epochs // (steps + 1): recipe.target * (step + 1) / steps for step in range(steps)}


def _masks(state: State | None) -> State:
    """What one-shot pruning left out, by parameter."""
    masked = {} if state is None else {n: t for n, t in state.items() if n.endswith(one_shot.MASK)}
    return {name.removesuffix(one_shot.MASK): mask for name, mask in masked.items()}


def seed_all(seed: bytes) -> None:
    """Seed every generator that a network may draw from, the global ones too."""
    number = int.from_bytes(seed[:8], "big")
    torch.manual_seed(number % 2**63)
    np.random.seed(number % 2**32)
    random.seed(number)


def batches(count: int, size: int) -> list[tuple[int, int]]:
    """Where batches start and stop; a last batch of one joins the one before it.

    >>> batches(9, 4), batches(8, 4), batches(1, 4)
    ([(0, 4), (4, 9)], [(0, 4), (4, 8)], [(0, 1)])
    """
    cuts = list(range(0, count, size))
    if len(cuts) > 1 and count - cuts[-1] == 1:
        cuts.pop()
    return list(zip(cuts, [*cuts[1:], count], strict=True))


def crop_flip(x: torch.Tensor, pad: int = 4) -> torch.Tensor:
    """Shift each image by up to `pad` pixels and mirror half of them, on the device, by the global generator."""
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


def _frozen(network: nn.Module) -> set[str]:
    """Frozen parameters, and the buffers of modules all of whose parameters are frozen."""
    names = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    for path, module in network.named_modules():
        own = list(module.parameters(recurse=False))
        if own and not any(parameter.requires_grad for parameter in own):
            names |= {f"{path}.{name}" if path else name for name, _ in module.named_buffers(recurse=False)}
    return names


def _train_mode(network: nn.Module, *, alone: bool) -> None:
    """Training mode, but eval for frozen modules, and for batch normalisation when there is a single sample."""
    network.train()
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        frozen = bool(own) and not any(parameter.requires_grad for parameter in own)
        normalising = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if frozen or (alone and normalising):
            module.eval()


def _optimizer(recipe: Recipe, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(parameters, recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    if recipe.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, recipe.lr, weight_decay=recipe.weight_decay)
    return torch.optim.Adam(parameters, recipe.lr, weight_decay=recipe.weight_decay)


def _schedule(recipe: Recipe, optimizer: torch.optim.Optimizer, steps: int) -> Any:
    if recipe.schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    if recipe.schedule == "one-cycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, total_steps=max(2, steps))
    return torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0, 0)
