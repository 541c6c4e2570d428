"""What a table or figure of the paper is made of: the runs that it needs, and what becomes of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cause.lab.reproduce.cell import Cell, Done, by
from cause.lab.reproduce.paper import Reported
from cause.lab.reproduce.size import PAPER_EPOCHS, SHARDS, Size
from cause.lab.reproduce.summary import Summary, trained_size

PAPER_DATASETS = ("cifar10", "svhn", "cifar100")
SIZE = ("share", "epochs", "rounds", "users", "recipe", "device")
"""What makes trainings comparable: systems are compared only at the same size."""


@dataclass(frozen=True)
class Figure:
    """One of them."""

    name: str
    title: str
    reported: Reported
    cells: Callable[[Size], list[Cell]]
    summarise: Callable[[Sequence[Done]], Summary]


def largest(done: Iterable[Done]) -> list[Done]:
    """Of simulations that differ only in the number of seeds, the one with most."""
    found: dict[tuple[Any, ...], Done] = {}
    for each in done:
        same = tuple((name, value) for name, value in sorted(each.cell.settings.items()) if name != "seeds")
        if same not in found or found[same]["seeds"] < each["seeds"]:
            found[same] = each
    return list(found.values())


def evenly(done: Sequence[Done]) -> list[Done]:
    """Simulations cut to the seeds that all of them have: only on the same workloads can systems be compared."""
    fewest = min((each["seeds"] for each in done), default=0)
    return [
        Done(
            Cell(each.cell.kind, {**each.cell.settings, "seeds": fewest}),
            {name: by_seed[:fewest] for name, by_seed in each.result.items()},
            each.seconds,
            each.source,
        )
        for each in done
    ]


@dataclass(frozen=True)
class Group:
    """Trainings that may be compared: the same data set, backbone and size."""

    dataset: str
    backbone: str
    size: str
    recipe: str
    done: list[Done]

    @property
    def name(self) -> str:
        """For a table or a picture."""
        return f"{self.backbone} on {self.dataset}" + ("" if self.recipe == "paper" else f", recipe {self.recipe}")

    def theirs(self, text: str) -> str:
        """A figure that the paper has for ResNet-34 on CIFAR-10 only, marked where ours is of something else."""
        same = (self.backbone, self.dataset) == ("resnet34", "cifar10")
        return text if same else f"{text} (resnet34 on cifar10)"

    @property
    def visits(self) -> str:
        """Why accuracy may be lower than the paper's on this data set: how much less was learned from."""
        if self.dataset not in PAPER_DATASETS:
            return ""
        share = self.done[0]["share"] * self.done[0]["epochs"] / PAPER_EPOCHS
        return "" if share >= 1 else f" Our trainings visit {100 * share:.3g} % as many samples as the paper's."


def machine_of(done: Done) -> str:
    """Where it was made: times and energies of different machines are not compared."""
    machine = done.source.get("machine", {})
    on_card = str(done["device"]).startswith("cuda")
    return str(machine.get("card" if on_card else "processor", "unknown"))


def groups(done: Sequence[Done]) -> list[Group]:
    """Trainings by data set, backbone and size."""
    found = by(done, "dataset", "backbone", *SIZE)
    return [Group(key[0], key[1], trained_size(own), own[0]["recipe"], own) for key, own in found.items()]


def over_shards(text: str, few: int, many: int) -> str:
    """A change that the paper has from its fewest shards to its most, marked where ours is between others.

    >>> over_shards("16.9 %", 1, 16), over_shards("16.9 %", 4, 16)
    ('16.9 %', '16.9 % (S = 1 to 16)')
    """
    first, last = SHARDS[0], SHARDS[-1]
    return text if (few, many) == (first, last) else f"{text} (S = {first} to {last})"


def beside(ours: str, paper: str | None) -> str:
    """Ours with the paper's behind it.

    >>> beside("0.70", "0.69"), beside("0.70", None)
    ('0.70 (paper 0.69)', '0.70')
    """
    return ours if paper is None else f"{ours} (paper {paper})"
