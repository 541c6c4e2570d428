"""The composition of a home: stored when the home is made, so that later changes of a preset do not affect it.

The table `[composition]` of `cause.toml` holds every part by value. Homes that were made before there was such a table
have a preset's name alone: it means what it meant then, whatever the preset of that name is by now.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_type_hints

from cause.common.registry import Registry
from cause.engine.composition import with_pruning_decided
from cause.engine.learner import Learner
from cause.engine.presets import FIXED, IF_NEEDED, PARTS, System, parse_system
from cause.errors import InputError

FORMER: Registry[System] = Registry(
    "system",
    {
        "cause": System("ucdp", 0.5, 0.5, "iterative-70", "fp32", "fibor", "one-by-one"),
        "cause-no-sc": System("ucdp", FIXED, 0.5, "iterative-70", "fp32", "fibor", "one-by-one"),
        "cause-u": System("uniform", 0.5, 0.5, "iterative-70", "fp32", "fibor", "one-by-one"),
        "cause-c": System("by-class", 0.5, 0.5, "iterative-70", "fp32", "fibor", "one-by-one"),
        "sisa": System("uniform", FIXED, 0.5, "none", "fp32", "latest", "one-by-one"),
        "arcane": System("by-class", FIXED, 0.5, "none", "fp32", "latest", "one-by-one", vote="max-confidence"),
        "omp-70": System("uniform", FIXED, 0.5, "one-shot-70", "fp32", "static", "one-by-one"),
        "omp-95": System("uniform", FIXED, 0.5, "one-shot-95", "fp32", "static", "one-by-one"),
        "frugal": System("ucdp", FIXED, 0.5, "iterative-70", "bf16", "cost", "coalesced"),
    },
)
"""The presets that homes without a table were made with. Never changed."""

LATER: dict[str, Any] = {"active": "lowest", "replays": "every"}
"""Parts that tables of earlier versions do not have, and what those homes do. Never changed, only added to."""


def composed(system: str, learner: Learner | None, shards: int, memory: str, slots: int | None) -> dict[str, Any]:
    """Return the table of a new home: all parts of its system, with pruning decided.

    Parameters
    ----------
    system
        A preset's name, perhaps with parts exchanged.
    learner
        Decides how large a sub-model is; None counts sub-models alone.
    shards, memory, slots
        The settings of the home.
    """

    def size(composed_system: System) -> int:
        return 1 if learner is None else learner.composed(composed_system).sub_model_bytes

    return table(with_pruning_decided(parse_system(system)[1], size, shards, memory, slots))


def table(system: System) -> dict[str, Any]:
    """Return the parts of a system by name."""
    return {name: value for name, value in asdict(system).items() if name in PARTS}


def system_of(name: str, parts: Mapping[str, Any] | None) -> System:
    """Return the system of a home: from its table, or for an old home what the preset meant when it was made.

    Raises
    ------
    InputError
        If a part is unknown, missing, or no part can have such a value.

    >>> system_of("frugal", None).policy, system_of("frugal", table(System())).policy
    ('cost', 'fibor')
    """
    if parts is None:
        return parse_system(name, FORMER)[1]
    types = get_type_hints(System)
    for part in {*PARTS, *parts}:
        if part not in PARTS:
            raise InputError(f"[composition] has no {part!r}")
        if part in LATER and part not in parts:
            continue
        if part not in parts:
            raise InputError(f"[composition] needs {part!r}")
        value, kind = parts[part], types[part]
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise InputError(f"{part} must be {kind.__name__}, not {value!r}")
    system = System(**LATER | {part: types[part](value) for part, value in parts.items()})
    if system.pruning == IF_NEEDED:
        raise InputError(f"[composition] leaves pruning open ({IF_NEEDED!r}): say how the home was made")
    return system
