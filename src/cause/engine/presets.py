"""Systems, each a composition of named parts, and the presets: a new preset is one line here."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

from cause.common.registry import Registry, check_choice
from cause.engine.controller import ShardController
from cause.engine.memory import POLICIES
from cause.engine.partition import PARTITIONERS
from cause.engine.voting import VOTES
from cause.errors import InputError

REPLAYED, ADDITIVE = LAWS = ("replayed", "additive")
"""How stored states follow from the samples: see `cause.engine.law`."""
FIXED = 1.0
"""γ of a shard controller that never lowers the number of shards."""

REQUESTS = ("one-by-one", "coalesced")
IF_NEEDED = "if-needed"
"""A pruning that a device settles when it is made: see `cause.engine.composition`."""
PRUNINGS = ("none", "iterative-70", "one-shot-70", "one-shot-95", IF_NEEDED)
ESTIMATORS = ("as-given", "robust")
RECOMMENDED = "recommended"
"""The system of a device for which none is named."""
ADDITIVE_SYSTEM = "additive"
"""The system of a device whose learner obeys the additive law, for which none is named."""
PRECISIONS = ("fp32", "bf16")
LOWEST, IN_TURN = "lowest", "in-turn"
ACTIVE = (LOWEST, IN_TURN)
"""Which shards take data in a round in which the controller uses fewer than all."""
EVERY, NEWEST = "every", "newest"
REPLAYS = (EVERY, NEWEST)
"""Which sub-models of a replay are stored."""
MOST_SLICES = 10_000
MOST_REHEARSAL = 100
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class System:
    """The parts of an exact unlearning system: everything in which two systems can differ.

    `pruning`, `precision`, `min_steps` and `estimators` are handed on to the learner, as far as it can have them; in a
    simulation the first two say how large a sub-model is. A segment has at least `min_steps` steps of an optimizer,
    however small it is. With `estimators="robust"` those of scikit-learn that learn in steps see asinh(x), which leaves
    small numbers as they are and brings large ones to a few units, and average their weights over the steps. With
    `active="in-turn"` the shards take turns where the controller uses fewer than all; with `replays="newest"` only the
    last sub-model of a replay is stored.

    `law` says for which learners the composition is meant, and by which law a simulation counts. It is no part of a
    composition: a device obeys the law of its learner.

    >>> System(policy="cost", requests="coalesced").policy
    'cost'
    """

    partition: str = "ucdp"
    gamma: float = 0.5
    p: float = 0.5
    pruning: str = "iterative-70"
    precision: str = "fp32"
    policy: str = "fibor"
    requests: str = "one-by-one"
    slices: int = 1
    rehearsal: float = 0.0
    vote: str = "majority"
    min_steps: int = 0
    estimators: str = "as-given"
    active: str = LOWEST
    replays: str = EVERY
    about: str = ""
    law: str = REPLAYED

    def __post_init__(self) -> None:
        PARTITIONERS[self.partition]
        POLICIES[self.policy]
        VOTES[self.vote]
        check_choice("requests", self.requests, REQUESTS)
        check_choice("pruning", self.pruning, PRUNINGS)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("estimators", self.estimators, ESTIMATORS)
        check_choice("active", self.active, ACTIVE)
        check_choice("replays", self.replays, REPLAYS)
        check_choice("law", self.law, LAWS)
        if not 0 <= self.min_steps <= MOST_STEPS:
            raise InputError(f"min_steps must be from 0 to {MOST_STEPS:,}, not {self.min_steps}")
        ShardController(1, self.p, self.gamma)
        if not 0 <= self.rehearsal <= MOST_REHEARSAL:
            raise InputError(
                f"rehearsal must be from 0 to {MOST_REHEARSAL} times the new samples, not {self.rehearsal}"
            )
        if not 1 <= self.slices <= MOST_SLICES:
            raise InputError(f"the number of slices must be from 1 to {MOST_SLICES:,}, not {self.slices}")

    @property
    def looks_at_samples(self) -> bool:
        """Whether the system handles samples one by one, instead of whole uploads."""
        return PARTITIONERS[self.partition].by_sample or self.slices > 1 or self.rehearsal > 0

    @property
    def controlled(self) -> bool:
        """Whether the shard controller lowers the number of shards; it does not if a trace names the shards."""
        return self.gamma < FIXED and self.partition != "given"


PARTS = tuple(field.name for field in fields(System) if field.name not in ("about", "law"))
"""The names of the parts of a composition."""

PRESETS: Registry[System] = Registry(
    "system",
    {
        RECOMMENDED: System(
            pruning=IF_NEEDED,
            precision="bf16",
            policy="adaptive",
            requests="coalesced",
            rehearsal=1.0,
            vote="weighted-soft",
            min_steps=1000,
            estimators="robust",
            about="ours, the default: accuracy first. Rehearsal, weighted vote, pruning only where memory is short",
        ),
        "cause": System(about="the paper's system: UCDP, shard controller, iterative pruning, FiboR"),
        "cause-no-sc": System(gamma=FIXED, about="CAUSE with a fixed number of shards"),
        "cause-u": System(partition="uniform", about="CAUSE with SISA's uniform partition"),
        "cause-c": System(partition="by-class", about="CAUSE with ARCANE's partition by class"),
        "sisa": System("uniform", FIXED, pruning="none", policy="latest", about="SISA: uniform shards, heads only"),
        "arcane": System(
            "by-class",
            FIXED,
            pruning="none",
            policy="latest",
            vote="max-confidence",
            about="ARCANE: shards by class, heads only",
        ),
        "omp-70": System(
            "uniform",
            FIXED,
            pruning="one-shot-70",
            policy="static",
            about="one-shot pruning of 70 %, no replacement",
        ),
        "omp-95": System(
            "uniform",
            FIXED,
            pruning="one-shot-95",
            policy="static",
            about="one-shot pruning of 95 %, no replacement",
        ),
        "cause-printed": System(
            policy="fibor-printed",
            active=IN_TURN,
            about="CAUSE as its algorithms are printed: FiboR starts anew in each call, shards take turns",
        ),
        "cause-no-sc-printed": System(
            gamma=FIXED,
            policy="fibor-printed",
            about="cause-printed with a fixed number of shards",
        ),
        "sisa-printed": System(
            "uniform", FIXED, pruning="none", policy="until-full", about="SISA as the paper runs it: stores until full"
        ),
        "arcane-printed": System(
            "by-class",
            FIXED,
            pruning="none",
            policy="until-full",
            vote="max-confidence",
            about="ARCANE as the paper runs it: stores until full",
        ),
        "omp-70-printed": System(
            "uniform", FIXED, pruning="one-shot-70", policy="until-full", about="OMP-70 as the paper runs it"
        ),
        "omp-95-printed": System(
            "uniform", FIXED, pruning="one-shot-95", policy="until-full", about="OMP-95 as the paper runs it"
        ),
        "frugal": System(
            gamma=FIXED,
            precision="bf16",
            policy="adaptive",
            requests="coalesced",
            about="ours, least retraining: fixed shards, pruned half-size sub-models, eviction that learns, coalesced",
        ),
        ADDITIVE_SYSTEM: System(
            "hash",
            FIXED,
            pruning="none",
            policy="fifo",
            requests="coalesced",
            about="ours, for an additive learner: one sum over all samples, forgetting subtracts, nothing is retrained",
            law=ADDITIVE,
        ),
    },
)

PAPER_MB = {
    # backbone: (dense, pruned 70 %, pruned 95 %), file sizes in MB of the paper's pruning table; it has no 95 %
    # row, so half its size at 90 % stands there.
    "resnet34": (85.82, 30.15, 4.22),
    "vgg16": (53.02, 19.73, 2.69),
    "densenet121": (26.24, 8.13, 1.24),
    "mobilenetv2": (7.71, 3.17, 0.60),
}
BACKBONES: Registry[tuple[float, float, float]] = Registry("backbone", PAPER_MB)
_COLUMN = {"none": 0, IF_NEEDED: 0, "iterative-70": 1, "one-shot-70": 1, "one-shot-95": 2}


def paper_sub_model_bytes(system: System, backbone: str = "resnet34") -> int:
    """Return the size of a sub-model of a system in bytes, from the paper's file sizes.

    >>> 2 * 2**30 // paper_sub_model_bytes(PRESETS["cause"])  # slots in the paper's 2 GB
    67
    """
    size_mb = BACKBONES[backbone][_COLUMN[system.pruning]]
    return round(size_mb * 2**20 / (2 if system.precision == "bf16" else 1))


def refuse_taken(system: System) -> None:
    """Raise an `InputError` if another installed package has a part of the same name as one of the system's.

    Called when something new is made or measured, never when a home is opened: a home's parts are always ours.
    """
    PARTITIONERS.refuse_taken(system.partition)
    POLICIES.refuse_taken(system.policy)
    VOTES.refuse_taken(system.vote)


def system_text(system: System) -> str:
    """Return the system as a text that `parse_system` can read.

    >>> system_text(System(policy="cost", slices=2))
    'cause:policy=cost,slices=2'
    """
    changes = {
        name: [part for part in PARTS if getattr(system, part) != getattr(PRESETS[name], part)]
        for name in ("cause", *PRESETS)
    }
    name = min(changes, key=lambda each: len(changes[each]))
    return name + ":" * bool(changes[name]) + ",".join(f"{part}={getattr(system, part)}" for part in changes[name])


def parse_system(text: str, presets: Mapping[str, System] = PRESETS) -> tuple[str, System]:
    """Parse the name of a preset, or of a preset with some parts exchanged; return the text and the system.

    >>> parse_system("cause:policy=cost,requests=coalesced")[1].requests
    'coalesced'
    >>> parse_system("cause:slices=many")
    Traceback (most recent call last):
    cause.errors.InputError: slices must be int, not 'many'
    """
    name, _, changes = text.partition(":")
    system = presets[name]
    types = get_type_hints(System)
    parts: Registry[Any] = Registry("part", {name: types[name] for name in PARTS})
    values: dict[str, Any] = {}
    for change in filter(None, changes.split(",")):
        part, _, value = change.partition("=")
        kind = parts[part.strip()]
        if part.strip() in values:
            raise InputError(f"{part.strip()} is given twice in {text!r}")
        try:
            values[part.strip()] = kind(value.strip())
        except ValueError:
            raise InputError(f"{part.strip()} must be {kind.__name__}, not {value.strip()!r}") from None
    return text, replace(system, **values)
