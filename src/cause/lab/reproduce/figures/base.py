"""`Figure`, a table or figure of the paper: the runs that it needs and how they are summarised; and helpers."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cause.data.loading import KNOWN
from cause.lab.reproduce.cell import Cell, Done, by
from cause.lab.reproduce.paper import EPOCHS_PER_ROUND, TRAINING_IMAGES, Reported
from cause.lab.reproduce.size import SHARDS, Size
from cause.lab.reproduce.summary import Summary, trained_size

PAPER_DATASETS = ("cifar10", "svhn", "cifar100")
SIZE = ("share", "epochs", "rounds", "users", "recipe", "device")
"""Settings that must be equal for trainings to be compared."""


@dataclass(frozen=True)
class Figure:
    """A table or figure of the paper: what the paper reports, the runs that it needs, and their summary."""

    name: str
    title: str
    reported: Reported
    cells: Callable[[Size], list[Cell]]
    summarise: Callable[[Sequence[Done]], Summary]


def largest(done: Iterable[Done]) -> list[Done]:
    """Return, of simulations that differ only in the number of seeds, the one with the most."""
    best: dict[str, Done] = {}
    for run in done:
        others = {name: value for name, value in run.cell.settings.items() if name != "seeds"}
        same = json.dumps(others, sort_keys=True)
        if same not in best or best[same]["seeds"] < run["seeds"]:
            best[same] = run
    return list(best.values())


def evenly(done: Sequence[Done]) -> list[Done]:
    """Cut simulations to the seeds that all have, since systems are compared on the same workloads."""
    fewest = min((run["seeds"] for run in done), default=0)
    return [
        Done(
            Cell(run.cell.kind, {**run.cell.settings, "seeds": fewest}),
            {name: by_seed[:fewest] for name, by_seed in run.result.items()},
            run.seconds,
            run.source,
        )
        for run in done
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
        """The name of the group in tables and plots."""
        return f"{self.backbone} on {self.dataset}" + ("" if self.recipe == "paper" else f", recipe {self.recipe}")

    def theirs(self, text: str) -> str:
        """Return a number that the paper has for ResNet-34 on CIFAR-10 only, marked if ours is of something else."""
        same = (self.backbone, self.dataset) == ("resnet34", "cifar10")
        return text if same else f"{text} (resnet34 on cifar10)"

    @property
    def visits(self) -> str:
        """A sentence that says how many fewer samples were visited than in the paper; empty if not fewer."""
        if self.dataset not in PAPER_DATASETS:
            return ""
        images = KNOWN[self.dataset].counts["train"] / TRAINING_IMAGES[self.dataset]
        share = images * self.done[0]["share"] * self.done[0]["epochs"] / EPOCHS_PER_ROUND
        return "" if share >= 1 else f" Our trainings visit {100 * share:.3g} % as many samples as the paper's."


def machine_of(done: Done) -> str:
    """Return the card or processor of a run: times and energies of different machines are not compared."""
    machine = done.source.get("machine", {})
    on_card = str(done["device"]).startswith("cuda")
    return str(machine.get("card" if on_card else "processor", "unknown"))


def groups(done: Sequence[Done]) -> list[Group]:
    """Group trainings by data set, backbone and size."""
    by_size = by(done, "dataset", "backbone", *SIZE)
    return [Group(key[0], key[1], trained_size(runs), runs[0]["recipe"], runs) for key, runs in by_size.items()]


def over_shards(text: str, few: int, many: int) -> str:
    """Return a change that the paper has from its fewest shards to its most, marked if ours is between others.

    >>> over_shards("16.9 %", 1, 16), over_shards("16.9 %", 4, 16)
    ('16.9 %', '16.9 % (S = 1 to 16)')
    """
    first, last = SHARDS[0], SHARDS[-1]
    return text if (few, many) == (first, last) else f"{text} (S = {first} to {last})"


def beside(ours: str, paper: str | None) -> str:
    """Return our number with the paper's in brackets.

    >>> beside("0.70", "0.69"), beside("0.70", None)
    ('0.70 (paper 0.69)', '0.70')
    """
    return ours if paper is None else f"{ours} (paper {paper})"
