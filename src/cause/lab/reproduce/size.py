"""How large the runs are: minutes on a processor, about an hour on a card, or as in the paper."""

from dataclasses import dataclass, replace
from typing import Any

from cause.engine.presets import BACKBONES
from cause.errors import InputError
from cause.lab.reproduce.cell import Cell
from cause.lab.reproduce.paper import EPOCHS_PER_ROUND
from cause.lab.reproduce.recipes import RECIPES
from cause.lab.reproduce.simulations import check_seeds, count_cell
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

SHARDS = (1, 2, 4, 8, 16)
SYSTEMS = ("cause", "sisa", "arcane", "omp-70", "omp-95")
SMALL_SETS = {"digits": 1.0}
"""The share of small data sets that a quick run takes."""


@dataclass(frozen=True)
class Size:
    """Everything that makes a reproduction larger or smaller. The defaults are the paper's."""

    name: str = "full"
    share: float = 1.0
    """Of the training samples."""
    cut: bool = False
    """Whether the user has set the share: small data sets are then cut, too."""
    epochs: int = EPOCHS_PER_ROUND
    rounds: int = 10
    users: int = 100
    tests: int | None = None
    """Test samples; all of them without a number."""
    seeds: int = 30
    """Seeds of simulations; each draws a workload."""
    workload: int = 50_000
    """Samples of a simulated workload."""
    ages: str = "uniform"
    scope: str = "part"
    arrivals: str = "every-round"
    labels: str = "dirichlet"
    """Of a simulated workload: see `cause.lab.workload.Workload`."""
    trainings: int = 1
    """Seeds of real training."""
    shards: tuple[int, ...] = SHARDS
    prune_epochs: int | None = None
    """In the pruning table; the paper's for each backbone without a number."""
    cost_samples: int = 50_000
    """The total of which ratios are retrained when time and energy are measured."""
    cost_ratios: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    cost_repeats: int = 3
    cost_epochs: int = 1
    backbones: tuple[str, ...] = tuple(BACKBONES)
    """The backbones whose retraining is measured."""
    energy_backbones: tuple[str, ...] = tuple(BACKBONES)
    """The backbones whose energy is calculated; each needs simulations and measurements."""
    network: str | None = None
    """The network to train instead of the paper's backbones where accuracy is measured."""
    recipe: str = "paper"
    device: str = "cpu"
    datasets: tuple[str, ...] | None = None
    """The data sets that are available, instead of the paper's."""
    verify: int = 2
    """Segments that are replayed after a training and compared bit by bit."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"--share is a part of the samples, above 0 and at most 1, not {self.share}")
        for name, flag in (("epochs", "--epochs"), ("trainings", "--trainings")):
            if getattr(self, name) < 1:
                raise InputError(f"{flag} must be at least 1, not {getattr(self, name)}")
        check_seeds(self.seeds)
        self.workload_of()  # the same limits

    def changed(self, **changes: Any) -> "Size":
        """Return a size with other values where they are not None; `epochs` applies to every kind of training."""
        values = {name: value for name, value in changes.items() if value is not None}
        if "epochs" in values:
            values["prune_epochs"] = values["cost_epochs"] = values["epochs"]
        if "share" in values:
            values["cut"] = True
        return replace(self, **values)

    def sets(self, *pairs: tuple[str, str]) -> list[tuple[str, str]]:
        """Return pairs of data set and backbone: those that are available, or what a quick run has instead."""
        available = [(d, b) for d, b in pairs if self.datasets is None or d in self.datasets]
        chosen = available or [(dataset, pairs[0][1]) for dataset in (self.datasets or ())[:1]]
        return list(dict.fromkeys((dataset, self.network or backbone) for dataset, backbone in chosen))

    def part(self, dataset: str) -> float:
        """Return the share of a data set's samples to train on."""
        whole = self.name == "quick" and not self.cut
        return SMALL_SETS.get(dataset, self.share) if whole else self.share

    def counting(self, system: str, **settings: Any) -> Cell:
        """Return a simulation on the paper's workload, with some settings of the device or the workload changed."""
        usual = count_cell(system, Setting(), self.workload_of(), self.seeds)
        return Cell(usual.kind, {**usual.settings, **settings})

    def workload_of(self) -> Workload:
        """Return the workload of simulations."""
        return Workload(
            samples=self.workload, ages=self.ages, scope=self.scope, arrivals=self.arrivals, labels=self.labels
        )

    def training(self, dataset: str, backbone: str, system: str, **settings: Any) -> list[Cell]:
        """Return the trainings of a system, round after round, one for each seed."""
        usual = {
            "dataset": dataset, "backbone": backbone, "system": system, "shards": 4, "rounds": self.rounds,
            "users": self.users, "alpha": 0.5, "rho": 0.0, "memory": "2GB", "recipe": self.recipe,
            "share": self.part(dataset), "epochs": self.epochs, "tests": self.tests, "device": self.device,
            "verify": self.verify,
        }  # fmt: skip
        usual |= RECIPES[self.recipe].settings
        return [Cell("train", {**usual, **settings, "seed": seed}) for seed in range(self.trainings)]

    def cost(self, backbone: str, pruning: str, dataset: str = "cifar10") -> Cell:
        """Return the measurement of time and energy of retraining."""
        ((chosen, _),) = self.sets((dataset, backbone))
        return Cell(
            "cost",
            {
                "backbone": backbone, "pruning": pruning, "dataset": _as_images(chosen), "epochs": self.cost_epochs,
                "sizes": [max(2, round(self.cost_samples * ratio)) for ratio in self.cost_ratios],
                "total": self.cost_samples, "repeats": self.cost_repeats, "device": self.device,
            },
        )  # fmt: skip


def _as_images(dataset: str) -> str:
    """Return the data set in 32×32 pixels, which the paper's backbones need."""
    return "digits32" if dataset == "digits" else dataset


FULL = Size()
REDUCED = Size(
    "reduced", share=0.2, epochs=20, seeds=20, prune_epochs=20,
    cost_samples=10_000, cost_ratios=(0.2, 0.4, 0.6, 0.8, 1.0), cost_repeats=2, cost_epochs=3,
)  # fmt: skip
QUICK = Size(
    "quick", share=0.02, epochs=2, rounds=3, users=30, tests=500, seeds=5, shards=(1, 4, 16), prune_epochs=6,
    cost_samples=32, cost_ratios=(0.25, 0.5, 0.75, 1.0), cost_repeats=1, network="cnn",
)  # fmt: skip
SIZES = {"quick": QUICK, "reduced": REDUCED, "full": FULL}
