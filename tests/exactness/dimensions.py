"""What a comparison with the clean room may differ in, as a table, and what cannot be combined."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from cause.engine.presets import ADDITIVE_SYSTEM, PRESETS, System
from tests.exactness.pairwise import Values
from tests.exactness.sequences import SEQUENCES

TORCH = {
    # learner: the model of its recipe, and its options
    "cnn": ("cnn", (("width", 4),)),
    "mlp": ("mlp", (("width", 8),)),
    "resnet": ("tests.exactness.networks:resnet", ()),
    "vgg": ("tests.exactness.networks:vgg", ()),
    "mobilenet": ("tests.exactness.networks:mobilenet", ()),
    "densenet": ("tests.exactness.networks:densenet", ()),
    "efficientnet-lite": ("tests.exactness.networks:efficientnet", ()),
    "own-dropout": ("tests.exactness.networks:own", ()),
}
FEW_STEPS = 4
"""Of a preset that asks for many steps a segment: enough to give small segments more epochs than others."""
SKLEARN = ("SGDClassifier", "Perceptron", "GaussianNB", "MultinomialNB", "BernoulliNB", "ComplementNB")
ADDING: dict[str, dict[str, Any]] = {
    # learner: its arguments besides features, scale and classes; more of them are in tests/learners/additive
    "additive-ridge": {},
    "additive-expanded": {"expand": 24, "squash": True},
    "additive-gaussian-nb": {"head": "gaussian-nb", "bits": 12},
}

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "preset": tuple(PRESETS),
    "learner": (*TORCH, *SKLEARN, *ADDING),
    "sequence": tuple(SEQUENCES),
    "pruning": ("none", "iterative", "one-shot"),
    "precision": ("fp32", "bf16"),
    "rehearsal": (0.0, 0.5),
    "slices": (1, 2),
    "workers": (1, 2),  # processes; the clean room trains in its own
    "storage": ("memory", "disk"),
    "process": ("same", "another"),  # in which the clean room is run
}
FORBIDDEN = (
    # estimators have no filters to remove, no masks, and are stored as they were fitted
    ("learner", SKLEARN, "pruning", ("iterative", "one-shot")),
    ("learner", SKLEARN, "precision", ("bf16",)),
    # sums have a preset of their own, which nothing else has; there is nothing to prune, to round or to rehearse
    ("learner", tuple(ADDING), "preset", tuple(name for name in PRESETS if name != ADDITIVE_SYSTEM)),
    ("preset", (ADDITIVE_SYSTEM,), "learner", (*TORCH, *SKLEARN)),
    *(
        (name, values, part, others)
        for name, values in (("learner", tuple(ADDING)), ("preset", (ADDITIVE_SYSTEM,)))
        for part, others in (
            ("pruning", ("iterative", "one-shot")),
            ("precision", ("bf16",)),
            ("rehearsal", (0.5,)),
            ("slices", (2,)),
            ("sequence", ("last-of-a-shard",)),  # there is one shard: nothing would be left to compare
        )
    ),
)


def feasible(case: Values) -> bool:
    """May these values meet?"""
    return not any(case.get(one) in those and case.get(other) in others for one, those, other, others in FORBIDDEN)


@dataclass(frozen=True)
class Case:
    """One combination of values: the composition of the device, the requests, and where it is compared."""

    preset: str
    learner: str
    sequence: str
    pruning: str
    precision: str
    rehearsal: float
    slices: int
    workers: int
    storage: str
    process: str

    def __str__(self) -> str:
        return "-".join(str(getattr(self, field.name)) for field in fields(self))

    @property
    def system(self) -> System:
        """The preset with this case's parts; a preset that masks 95 % does so in its one-shot cases."""
        own = PRESETS[self.preset]
        masking = own.pruning if own.pruning.startswith("one-shot") else "one-shot-70"
        pruning = {"none": "none", "iterative": "iterative-70", "one-shot": masking}[self.pruning]
        own = replace(own, min_steps=min(own.min_steps, FEW_STEPS))
        return replace(own, pruning=pruning, precision=self.precision, rehearsal=self.rehearsal, slices=self.slices)


def all_cases(**fixed: Any) -> Iterator[Case]:
    """The full product, or the part of it that has these values, without what cannot be combined."""
    for values in product(*({**DIMENSIONS, **{name: (value,) for name, value in fixed.items()}}.values())):
        named = dict(zip(DIMENSIONS, values, strict=True))
        if feasible(named):
            yield Case(**named)
