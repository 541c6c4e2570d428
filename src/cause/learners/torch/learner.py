"""TorchLearner trains any network as a pure function of parent, samples, seed and recipe."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cause.common.hashing import derive, digest
from cause.common.importing import imported
from cause.engine.keywords import checks_arguments
from cause.engine.learner import Learner, Predictor, UsersCode, check_labels, check_values
from cause.engine.presets import System
from cause.engine.progress import Tick, silent
from cause.engine.samples import Lesson, Upload, arrays_of
from cause.errors import DivergedError, InputError, LearnerError, is_passing
from cause.learners import codec
from cause.learners.described import NotNamedError
from cause.learners.recipe import Recipe
from cause.learners.torch import public_weights
from cause.learners.torch.batches import batches, epochs_of, uses
from cause.learners.torch.cuda_graph_steps import DeviceSteps
from cause.learners.torch.data import (
    Resident,
    Samples,
    Scaled,
    check_answers,
    check_tokens,
    finite,
    gather,
    order,
    shaped,
    whole_numbers,
)
from cause.learners.torch.eager_steps import PlainSteps, Steps
from cause.learners.torch.environment import device_of, environment_of
from cause.learners.torch.factories import check_factory, inputs_of
from cause.learners.torch.freezing import freeze, frozen, masks_of, prune_at, target_bytes, train_mode
from cause.learners.torch.gpu_probe import Habits, habits_of, lay_out, set_layout
from cause.learners.torch.isolation import isolated, seed_all
from cause.learners.torch.losses import computing
from cause.learners.torch.models import MODELS, factory
from cause.learners.torch.models.depthwise import is_filled
from cause.learners.torch.named import described, recipe_of
from cause.learners.torch.other_threads import OtherThreads, Watched
from cause.learners.torch.private_draws import PrivateDraws, others_run
from cause.learners.torch.pruning import one_shot
from cause.learners.torch.pruning.feasible import Plan
from cause.learners.torch.pruning.planning import needs_trial, plan_of
from cause.learners.torch.pruning.widths import shrink
from cause.learners.torch.switches import own_settings

if TYPE_CHECKING:
    from cause.learners.torch.pruning.iterative import IterativePruner

State = dict[str, torch.Tensor]
AT_ONCE = 1024
AT_ONCE_ON_GPU = 4096
"""The number of inputs in one batch of a prediction, on a CPU and on a GPU."""


class TorchLearner(Learner):
    """Trains the network of a recipe, one segment after the other.

    Every generator is seeded from (root, shard, round, slice, epoch), each segment has a new optimizer, samples come in
    the order of a keyed hash of their ids, and training starts from decoded bytes. Parameters that the factory freezes
    (`requires_grad=False`) belong to a public part: its modules stay in eval mode, and sub-models do not contain it.

    Parameters
    ----------
    recipe
        What to train and how. Or a model: the name of a model of this package, `package.module:function`, or a function
        that is called with (classes, shape); then the other fields of the recipe are given as keyword arguments.
    make
        A factory for the recipe's model, if it cannot be imported by name.
    device
        Where to train: "cpu", "cuda", "mps".
    threads
        Threads of the CPU. Another number gives other bits, so it is part of the environment.
    graphs
        On a GPU, record a step as a CUDA graph and replay it if the network allows it: the same bits, faster.
    parts
        Fields of the recipe, if `recipe` is a model.

    Raises
    ------
    InputError
        If the recipe, the device or the number of threads is not valid.
    LearnerError
        If the factory does not make a usable network.

    Examples
    --------
    >>> TorchLearner("cnn", classes=10, shape=(1, 8, 8), epochs=5).recipe.epochs
    5
    """

    @checks_arguments
    def __init__(
        self,
        recipe: Recipe | str | Callable[..., nn.Module],
        *,
        make: Callable[..., nn.Module] | None = None,
        device: str = "cpu",
        threads: int = 1,
        graphs: bool = True,
        **parts: Any,
    ) -> None:
        if not isinstance(recipe, Recipe):
            make = make if isinstance(recipe, str) else recipe
            recipe = recipe_of(recipe, parts)
        elif parts:
            raise InputError(f"the recipe is given whole, so {sorted(parts)[0]!r} belongs into it")
        if threads < 1:
            raise InputError(f"the number of threads must be at least 1, not {threads}")
        self.device, self.threads, self.graphs = device_of(device), threads, graphs
        self._make = make or factory(recipe.model)
        if recipe.loss is not None:
            imported(recipe.loss, "loss")
        self._public: State = {}
        if recipe.init is not None:
            init = public_weights.located(recipe.init)
            self._public, init_sha256 = public_weights.read(init, recipe.init_sha256)
            recipe = replace(recipe, init=init, init_sha256=init_sha256)
        self._recipe = recipe.with_defaults
        self._tokens: int | None = None
        self._uncomposed = recipe if self._is_ours else self._checked(recipe)
        self._set_recipe(self._uncomposed.with_defaults)

    @property
    def _is_ours(self) -> bool:
        """Whether the model is one of this package: then the factory need not be tried."""
        return self.recipe.model in MODELS and self._make is factory(self.recipe.model)

    def _checked(self, recipe: Recipe) -> Recipe:
        """Try the factory, and return the recipe with the type of inputs that its network takes."""
        private = self.device.type == "cpu" and others_run()
        with isolated(self.device, self.threads, recipe.compute, private=private):
            inputs = inputs_of(check_factory(self._new), recipe, self.device)
        self._tokens = inputs.tokens
        return replace(recipe, input_dtype=inputs.dtype) if inputs.dtype else recipe

    def _new(self) -> nn.Module:
        """Return a new network of the factory, with the recipe's layers frozen."""
        network: nn.Module = self._make(self.recipe.classes, self.recipe.shape, **dict(self.recipe.options))
        if self.recipe.freeze:
            freeze(network, self.recipe.freeze)
        return network

    def _set_recipe(self, recipe: Recipe) -> None:
        """Set the composed recipe, and everything that follows from it."""
        self._recipe = recipe
        self._habits: Habits | None = None  # probed on the first segment, on a GPU
        self._plan: Plan | None = None  # made when it is needed
        self._others = OtherThreads(on_gpu=self.device.type != "cpu")
        self._predictions_draw = True  # unless a private prediction drew nothing
        self._frozen: State = {}
        self._start: State = {}  # what a first segment starts from, besides what it draws
        self._drawn: list[str] = []
        with self._isolated(digest("frozen parts")):
            if recipe.init is not None:
                self._start, self._drawn = public_weights.fitting(self._new(), self._public, recipe.init)
            network = self._build()
        self._filled = is_filled(network, self.device)
        self._frozen = {
            name: tensor.clone() for name, tensor in network.state_dict().items() if name in frozen(network)
        }
        layout = [
            (name, str(tensor.dtype), tuple(tensor.shape)) for name, tensor in sorted(network.state_dict().items())
        ]
        self._digest = digest(recipe.digest, str(layout), codec.state_digest(self._frozen))
        self._tensors = [
            (t.numel(), t.element_size(), t.is_floating_point())
            for name, t in network.state_dict().items()
            if name not in self._frozen
        ]

    def described(self) -> dict[str, Any]:
        """Return the learner as plain data, for a configuration.

        Raises
        ------
        NotNamedError
            If the model cannot be imported by name.
        """
        if self._make is not factory(self._uncomposed.model):
            raise NotNamedError(f"the model {self._uncomposed.model!r} cannot be imported by name")
        return {"kind": "torch", **described(self._uncomposed), "device": self.device.type, "threads": self.threads}

    def composed(self, system: System) -> "TorchLearner":
        """Return the learner with the pruning and precision of a system."""
        composed = self._uncomposed.composed(system)
        if composed == self.recipe:
            return self
        learner = copy.copy(self)
        learner._set_recipe(composed.with_defaults)
        return learner

    # For a trial

    def shortened(self) -> "TorchLearner":
        """Return the learner with at most 2 epochs, for a trial."""
        learner = copy.copy(self)
        learner._recipe = replace(self.recipe, epochs=min(2, self.recipe.epochs), steps=1, min_steps=0)
        return learner

    def unrounded(self) -> "TorchLearner":
        """Return the learner with full precision, for a trial: rounding to bf16 hides small differences."""
        learner = copy.copy(self)
        learner._recipe = replace(self.recipe, precision="fp32")
        return learner

    @property
    def tokens(self) -> int | None:
        """Number of different whole numbers that an input may hold; None if inputs are not whole numbers."""
        return (self._tokens or 1) if self.recipe.input_dtype == "int64" else None

    @property
    def users_code(self) -> UsersCode | None:
        """Function that lists the classes and functions of the user's own that take part; None if there are none."""
        return None if self._is_ours and self.recipe.loss is None else self._users_code

    def _users_code(self) -> tuple[list[type], list[Callable[..., Any]]]:
        with self._isolated(digest("a user's code")):
            network = self._new()
        loss = [] if self.recipe.loss is None else [imported(self.recipe.loss, "loss")]
        return list({type(module): None for module in network.modules()}), [self._make, *loss]

    @property
    def recipe(self) -> Recipe:
        """The recipe, composed with the system."""
        return self._recipe

    @property
    def prunes(self) -> bool:
        """Whether the recipe prunes weights or filters."""
        return self.recipe.pruning != "none"

    @property
    def classes(self) -> int:
        """Number of classes, as in the recipe."""
        return self.recipe.classes

    @property
    def device_type(self) -> str:
        """Kind of processor that trains: "cpu", "cuda", "mps"."""
        return str(self.device.type)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        return self.recipe.shape

    @property
    def recipe_digest(self) -> bytes:
        """Digest of the recipe, of the network's tensors and of the values of its frozen part."""
        return self._digest

    @property
    def environment(self) -> str:
        """Versions, processor and settings on which bits depend, besides the recipe."""
        return environment_of(self.device, self.threads, filled=self._filled, whole=self.pruning_plan.whole)

    @property
    def sub_model_bytes(self) -> int:
        """Size of a sub-model after pruning, uncompressed."""
        return target_bytes(self.recipe, self._tensors, self.pruning_plan.removed)

    @property
    def notes(self) -> list[str]:
        """Sentences that a user should read: what cannot be pruned, and what does not start from public weights."""
        sentences = [self.pruning_plan.note] if self.pruning_plan.note else []
        if self._drawn:
            names = ", ".join(self._drawn[:3]) + (" …" if len(self._drawn) > 3 else "")
            sentences.append(f"{len(self._drawn)} of the network's tensors are not in the public weights: {names}")
        return sentences

    @property
    def pruning_plan(self) -> Plan:
        """Which layers may lose filters. It follows from the network's structure, so it is computed once."""
        if self._plan is None and not needs_trial(self.recipe, is_ours=self._is_ours):
            self._plan = Plan()
        if self._plan is None:
            with self._isolated(digest("pruning plan")):
                self._plan = plan_of(self.recipe, self._build, self.device, self.tokens)
        return self._plan

    # Training

    def check(self, upload: Upload) -> None:
        """Refuse labels and inputs that the network cannot learn from (`Learner.check`)."""
        check_labels(upload, self.recipe.classes)
        whose, whole = f" of user {upload.user!r}", self.recipe.input_dtype == "int64"
        x, _ = arrays_of(upload, upload.positions)
        shaped(x, self.recipe.shape, whose)
        if whole:
            check_tokens(whole_numbers(x, whose), self._tokens, whose)
        else:
            check_values(upload, x, partial(finite, recipe=self.recipe), "which is not finite as float32, scaled")

    def train(self, parent: State | None, lesson: Lesson, seed: bytes, tick: Tick = silent) -> State:
        """Train a network on a lesson (`Learner.train`).

        Raises
        ------
        DivergedError
            If a weight is not finite afterwards.
        LearnerError
            If a pruned network does not run.
        """
        if parent is None:
            self.pruning_plan  # noqa: B018 - computed before the network is made
        attempt = partial(self._attempt, parent, lesson, seed, tick)
        try:
            return self._others.undisturbed(attempt, users_code=self.users_code is not None)
        except RuntimeError as error:
            if self.recipe.pruning != "iterative" or not self.pruning_plan.prunable or is_passing(error):
                raise
            first = (str(error).splitlines() or [""])[0]
            raise LearnerError(
                f"the pruned network fails: {first}; if its code takes other layers for other inputs, it cannot be "
                "pruned: make the device with pruning=none in its system, as 'cause:pruning=none'"
            ) from error

    def _attempt(self, parent: State | None, lesson: Lesson, seed: bytes, tick: Tick, watch: Watched) -> State:
        with self._isolated(derive(seed, "init"), private=watch.private) as draws:
            watch.draws = draws
            network, masks = self._build(parent), masks_of(parent, self.device)
            masks = self._fit(network, lesson, seed, masks, tick, watch, first=parent is None)
            return self._state(network, masks)

    def _fit(
        self,
        network: nn.Module,
        lesson: Lesson,
        seed: bytes,
        masks: State,
        tick: Tick,
        watch: Watched,
        *,
        first: bool,
    ) -> State:
        recipe, epochs = self.recipe, epochs_of(self.recipe, lesson)
        pieces = [*lesson.pieces, *lesson.rehearsed]
        inputs, labels = gather(pieces, recipe.shape)
        samples, y = self._samples(inputs), torch.from_numpy(labels).to(self.device)
        cuts = batches(len(y), recipe.batch_size)
        prunes = first and self.pruning_plan.prunable
        pruner = self._pruner(network, samples, len(y)) if prunes and recipe.pruning == "iterative" else None
        pruned_at = prune_at(recipe, epochs) if prunes else {}
        train_mode(network, alone=len(y) == 1)
        steps = self._steps(network, samples, y, masks, uses(cuts, epochs))
        for epoch in range(epochs):
            if epoch in pruned_at:
                steps.settle()
                masks = self._prune(network, pruner, pruned_at[epoch])
                # filters are removed or weights masked, so the optimizer's state no longer fits
                steps = self._steps(network, samples, y, masks, uses(cuts, epochs - epoch))
            seed_all(derive(seed, "epoch", epoch))
            with watch.epoch():
                steps.epoch(order(pieces, derive(seed, "order", epoch)), cuts)
            tick(epoch + 1, epochs)
        return masks

    def _steps(
        self, network: nn.Module, samples: Samples, y: torch.Tensor, masks: State, planned: Counter[int]
    ) -> Steps:
        """Return steps that can be recorded on a GPU, unless the schedule changes a value on the host (momentum)."""
        if not isinstance(samples, Resident):
            return PlainSteps(network, samples, y, self.recipe, masks, planned.total())
        habits = self._habits_of(network, samples)
        set_layout(network, habits.layout)  # a pruner may have changed it
        samples = samples.laid(habits.layout)
        if self.recipe.schedule == "one-cycle":
            return PlainSteps(network, samples, y, self.recipe, masks, planned.total())
        return DeviceSteps(network, samples, y, self.recipe, masks, planned, record=habits.recordable and self.graphs)

    def _habits_of(self, network: nn.Module, samples: Resident) -> Habits:
        if self._habits is None:
            self._habits = habits_of(network, *self._two(samples), self.recipe)
        return self._habits

    def _two(self, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch to try a network on: the first sample twice, with label 0."""
        two = torch.zeros(2, dtype=torch.int64, device=self.device)
        return samples.batch(two, augmented=False), two

    def _samples(self, x: NDArray[Any]) -> Samples:
        kind = Resident if self.device.type == "cuda" else Scaled
        return kind.of(x, self.recipe, self.device)

    def _pruner(self, network: nn.Module, samples: Samples, count: int) -> "IterativePruner":
        from cause.learners.torch.pruning.iterative import IterativePruner

        recipe = self.recipe
        # only its shape matters; zeros, so that the pruner keeps no copy of samples
        example = torch.zeros_like(samples.batch(torch.arange(min(2, count), device=self.device), augmented=False))
        return IterativePruner(
            network,
            example,
            importance=recipe.importance,
            round_to=recipe.round_to,
            whole=self.pruning_plan.whole,
        )

    def _prune(self, network: nn.Module, pruner: "IterativePruner | None", share: float) -> State:
        if pruner is not None:
            pruner.prune_to(share, strict=False)  # the pruning plan says how much can be pruned
            return {}
        masks = one_shot.choose(network, share)
        one_shot.apply(network, masks)
        return masks

    def _build(self, state: State | None = None) -> nn.Module:
        """Return the network of a state, or a new one; frozen parts always have their public values."""
        network = self._new()
        if state is None:
            # public weights, and the same frozen values as in all later segments
            network.load_state_dict({**self._start, **self._frozen}, strict=False)
        else:
            tensors = {**self._frozen, **{n: t for n, t in state.items() if not n.endswith(one_shot.MASK)}}
            if self.recipe.pruning == "iterative":
                shrink(network, tensors)
            unmatched = set(network.state_dict()) ^ set(tensors)
            if unmatched:
                raise LearnerError(
                    f"the stored sub-model does not fit the recipe: only one of them has {sorted(unmatched)[0]!r}"
                )
            network.load_state_dict(tensors)
        return network.to(self.device)

    def _state(self, network: nn.Module, masks: State) -> State:
        kept = {name: t for name, t in network.state_dict().items() if name not in self._frozen}
        if self.recipe.precision == "bf16":
            kept = {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in kept.items()}
        for name, tensor in kept.items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise DivergedError(f"training diverged: {name} is no longer finite (lower the learning rate?)")
        kept |= {name + one_shot.MASK: mask for name, mask in masks.items()}
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in kept.items()}

    @contextmanager
    def _isolated(self, seed: bytes, *, private: bool | None = None) -> Iterator[PrivateDraws | None]:
        """Seed every generator and set every flag; restore the caller's afterwards.

        With `private` draws are those of this thread alone; by default they are if there are other threads.
        """
        private = others_run() if private is None else private
        on_cpu = self.device.type == "cpu"
        with isolated(self.device, self.threads, self.recipe.compute, private=private and on_cpu) as draws:
            seed_all(seed)
            yield draws

    # Prediction and storage

    @property
    def has_network(self) -> bool:
        """Whether states are the weights of a network: yes."""
        return True

    def network(self, state: State) -> nn.Module:
        """Return the network of a state in eval mode, frozen parts included, for inputs that are scaled already."""
        with self._isolated(digest("predict")):
            return self._build({name: t.float() if t.is_floating_point() else t for name, t in state.items()}).eval()

    def predict(self, state: State, x: Any) -> NDArray[np.floating]:
        """Return probabilities for inputs: one row a sample, one column a class."""
        return self.predictor(state)(x)

    def predictor(self, state: State) -> Predictor:
        """Return a function that predicts with a state; the network is built once."""
        return partial(self._predict, self.network(state))

    def _predict(self, network: nn.Module, x: Any) -> NDArray[np.floating]:
        private = others_run() and self._predictions_draw
        with self._isolated(digest("predict"), private=private) as draws, torch.no_grad():
            inputs, at_once = self._samples(np.asarray(x)), AT_ONCE
            if isinstance(inputs, Resident):
                inputs, at_once = inputs.laid(lay_out(network, self._two(inputs)[0], self.recipe)), AT_ONCE_ON_GPU
            with computing(self.device, self.recipe.compute):
                parts = [torch.softmax(network(part).float(), dim=1) for part in inputs.parts(at_once)]
            answers = torch.cat(parts)
            check_answers(answers, inputs)
        if draws is not None:
            self._predictions_draw = draws.draws > 0
        return answers.cpu().numpy()

    def encode(self, state: State) -> bytes:
        """Return a state as bytes to store."""
        with own_settings(self.threads):
            return codec.encode(one_shot.pack(state))

    def decode(self, blob: bytes) -> State:
        """Return the state of stored bytes; a `LearnerError` if they are damaged."""
        with own_settings(self.threads):
            state = one_shot.unpack(codec.decode(blob))
            return {name: t.float() if t.dtype == torch.bfloat16 else t for name, t in state.items()}
