"""Trainings beside other threads of the same program, which may draw from the same global generators.

Torch's draws can be made private to a thread (`private_draws`), at the price of a Python call for each operation. So
this is done while there are other threads, until a training has shown that the network draws nothing. Numpy's and
`random`'s global generators cannot be made private: if one of them moved during a training of a user's network beside
other threads, the training is done twice, and refused if the two differ.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from cause.errors import PassingError
from cause.learners.torch.isolation import other_generators
from cause.learners.torch.private_draws import PrivateDraws, others_run

State = dict[str, torch.Tensor]


class _Disturbed(Exception):
    """Torch's global generator moved during an epoch, perhaps because another thread drew from it."""


@dataclass
class Watched:
    """Watches the generators during one training: what it draws, and whether other threads draw meanwhile."""

    private: bool
    """Whether torch's draws are those of this thread alone."""
    draws: PrivateDraws | None = None
    """The private generator."""
    on_gpu: bool = False
    users_code: bool = True
    drew: bool = False
    """Whether an epoch drew from the private generator."""
    others_moved: bool = False
    """Whether numpy's or `random`'s generator moved in an epoch beside other threads."""
    ends: list[Any] = field(default_factory=list)
    """The states of numpy's and `random`'s generators after each epoch that moved one."""

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Watch the generators during an epoch, from just after they were seeded.

        Raises
        ------
        _Disturbed
            If torch's global generator moved beside other threads.
        """
        if self.on_gpu:
            yield
            return
        beside = others_run()
        drawn = 0 if self.draws is None else self.draws.draws
        torchs = None if self.private else torch.default_generator.get_state()
        others = other_generators() if self.users_code else None
        yield
        if self.draws is not None:
            self.drew = self.drew or self.draws.draws > drawn
        if not (beside or others_run()):
            return
        if torchs is not None and not torch.equal(torchs, torch.default_generator.get_state()):
            raise _Disturbed
        if others is not None and (end := other_generators()) != others:
            self.others_moved = True
            self.ends.append(end)


class OtherThreads:
    """Keeps a learner's trainings free of what other threads draw.

    Parameters
    ----------
    on_gpu
        Whether the network is trained on a GPU, whose draws cannot be made private: nothing is watched then.
    """

    def __init__(self, *, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._draws = True  # unless a training showed that its epochs draw nothing
        self._others_matter = True  # unless others were seen to draw without any effect

    def undisturbed(self, attempt: Callable[[Watched], State], *, users_code: bool) -> State:
        """Train, again if other threads may have drawn from what the training draws from.

        Parameters
        ----------
        attempt
            Trains once.
        users_code
            Whether the network may draw from numpy's or `random`'s generator: those of this package do not.

        Raises
        ------
        PassingError
            If two trainings differ because other threads draw from numpy's or `random`'s generator.
        """
        state, watch = self._attempt(attempt, users_code=users_code and self._others_matter)
        if not watch.others_moved:
            return state
        again, second = self._attempt(attempt, users_code=True)
        if not _same(state, again):
            raise PassingError(
                "two trainings of the same samples and seed gave other weights: the network draws from numpy's or "
                "random's global generator, and so does another thread of this program meanwhile; train in a process "
                "of its own (workers=1), or let the network draw from torch's generator"
            )
        if watch.ends != second.ends:  # others drew, and no bit depended on it
            self._others_matter = False
        return state

    def _attempt(self, attempt: Callable[[Watched], State], *, users_code: bool) -> tuple[State, Watched]:
        private = not self._on_gpu and self._draws and others_run()
        watch = Watched(private, on_gpu=self._on_gpu, users_code=users_code)
        try:
            state = attempt(watch)
        except _Disturbed:
            watch = Watched(private=True, users_code=users_code)
            state = attempt(watch)
        if watch.private:
            self._draws = watch.drew
        return state, watch


def _same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
