"""The full product, cheaply: one device serves all sequences of requests one after another, compared after each.

A *set-up* is a combination without sequence, workers, storage and process. All its devices see the same rounds and
requests, so that one clean room in this process and one in another, for each sequence, serve all of them.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.exactness.case_runner import Workshop
from tests.exactness.clean import SubModels, mismatches, sub_models_of
from tests.exactness.dimensions import DIMENSIONS, Case, all_cases, feasible
from tests.exactness.observer import Observed
from tests.exactness.records import Outcome, Record, record
from tests.exactness.sequences import SEQUENCES

VARIED = ("sequence", "workers", "storage", "process")
_workshop: Workshop | None = None


def set_ups() -> list[Case]:
    """The combinations that need devices of their own, each as the first of its cases."""
    return list(all_cases(**{name: DIMENSIONS[name][0] for name in VARIED}))


def alike(set_ups: Sequence[Case]) -> list[list[Case]]:
    """Set-ups that differ in their presets alone, together: their clean rooms train much the same."""
    groups: dict[Case, list[Case]] = {}
    for set_up in set_ups:
        groups.setdefault(replace(set_up, preset=""), []).append(set_up)
    return list(groups.values())


def run(set_ups: Sequence[Case]) -> list[Record]:
    """Some set-ups in a process that keeps its workshop, and what came out."""
    global _workshop
    _workshop = _workshop or Workshop()
    records = []
    for set_up in set_ups:
        start = time.perf_counter()
        outcomes = list(compare_all(set_up, _workshop))
        records.append(record(set_up, time.perf_counter() - start, outcomes))
    return records


def compare_all(set_up: Case, workshop: Workshop) -> Iterator[Outcome]:
    """Every case of a set-up."""
    clean: dict[tuple[str, str], tuple[frozenset[object], SubModels]] = {}
    for workers, storage in product(DIMENSIONS["workers"], DIMENSIONS["storage"]):
        with TemporaryDirectory() as folder:
            case = replace(set_up, workers=workers, storage=storage)
            yield from _compare_device(case, Path(folder), workshop, clean)


def _compare_device(
    case: Case, folder: Path, workshop: Workshop, clean: dict[tuple[str, str], tuple[frozenset[object], SubModels]]
) -> Iterator[Outcome]:
    observed: Observed | None = None
    failure = ""
    for name, forget in SEQUENCES.items():
        if not feasible({**vars(case), "sequence": name}):
            continue
        try:
            if not failure:
                observed = observed or workshop.device(case, folder)
                forget(observed)
        except Exception as error:  # a device that fails is wrong from here on, and the run goes on
            failure = f"{type(error).__name__}: {error}"
        for process in DIMENSIONS["process"]:
            this = replace(case, sequence=name, process=process)
            if failure or observed is None:
                yield Outcome(this, (failure,))
                continue
            if (name, process) not in clean:
                made = workshop.clean_room(this, observed.left())
                clean[name, process] = frozenset(observed.retained), made
            retained, expected = clean[name, process]
            empty = () if expected else ("nothing is left to compare",)
            other = () if retained == observed.retained else ("it retains other samples than its siblings",)
            yield Outcome(this, (*empty, *other, *mismatches(sub_models_of(observed.device), expected)))
