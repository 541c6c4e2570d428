"""Replacement policies over a map of ages, shards and slots, with the shard controller and without."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cause.common.statistics import Mean
from cause.lab.reproduce import paper
from cause.lab.reproduce.cell import Cell, Done, of_kind
from cause.lab.reproduce.figures.base import Figure, largest
from cause.lab.reproduce.kinds.map import INFORMED
from cause.lab.reproduce.size import Size
from cause.lab.reproduce.summary import Claim, Panel, Series, Summary, counted_size, percent

OURS = "adaptive"
OTHERS = ("fibor", "random", "fifo", "static", "cost")
AGES = ("current", "recent:0.2", "recent:0.5", "recent:0.8", "uniform")
RECENT = ("current", "recent:0.2")
SHARDS = (2, 4, 8, 16)
SLOTS_EACH = (2, 3, 4, 6, 8)
BINDS = 1.05
FEW = (2, 3)
"""Few slots a shard."""
FRESH = 12
"""The first seed on which the constants of `adaptive` were not chosen."""
SYSTEMS = {"cause-no-sc": "fixed shards", "cause": "controller"}


@dataclass(frozen=True)
class Place:
    """One place on the map: the RSN of each policy by seed."""

    system: str
    ages: str
    shards: int
    each: int
    """Slots a shard."""
    rsn: Mapping[str, Sequence[int]]
    floor: Sequence[int]
    """The RSN with a memory without limit, by seed."""

    @property
    def binds(self) -> bool:
        """Whether memory is short: FiboR retrains at least 5 % more than the floor."""
        return sum(self.rsn["fibor"]) >= BINDS * sum(self.floor)

    def ratio(self, other: str, ours: str = OURS) -> Mean:
        """Return the RSN of our policy, or of the named one, as a share of another's, on pairs of the same seed."""
        pairs = zip(self.rsn[ours], self.rsn[other], strict=True)
        return Mean.of([mine / theirs if theirs else 1.0 for mine, theirs in pairs])

    def from_seed(self, first: int) -> "Place":
        """Return the same place with the seeds from `first` on."""
        rsn = {policy: by_seed[first:] for policy, by_seed in self.rsn.items()}
        return replace(self, rsn=rsn, floor=self.floor[first:])

    @property
    def best(self) -> str:
        """The policy with the least mean RSN, of those that a device can have, without ours."""
        return min((name for name in self.rsn if name in OTHERS), key=lambda name: sum(self.rsn[name]))

    def __str__(self) -> str:
        return f"{SYSTEMS[self.system]}, ages {self.ages}, S = {self.shards}, {self.each} slots a shard"


def cells(size: Size) -> list[Cell]:
    """Return the runs: each tries all policies and numbers of slots on the workloads of all seeds."""
    quick = size.name == "quick"
    workload = size.workload_of()
    return [
        Cell(
            "map",
            {
                "system": system, "shards": shards, "slots": ",".join(str(shards * slots) for slots in SLOTS_EACH),
                "policies": ",".join((*OTHERS, OURS, INFORMED)), "users": workload.users, "rounds": workload.rounds,
                "samples": workload.samples, "rho": workload.rho, "ages": ages, "labels": workload.labels,
                "seeds": size.seeds,
            },
        )
        for system in SYSTEMS
        for ages in (AGES[::2] if quick else AGES)
        for shards in (SHARDS[1:2] if quick else SHARDS)
    ]  # fmt: skip


def places_of(done: Sequence[Done]) -> Iterator[Place]:
    """Yield the places of the map."""
    for run in done:
        for slots in run["slots"].split(","):
            rsn = {policy: by_slots[slots] for policy, by_slots in run.result["rsn"].items()}
            yield Place(
                run["system"], run["ages"], run["shards"], int(slots) // run["shards"], rsn, run.result["floor_rsn"]
            )


def summarise(done: Sequence[Done]) -> Summary:
    """Summarise our RSN as a share of FiboR's and of the best other policy's, everywhere on the map."""
    counted = largest(of_kind(done, "map"))
    places = list(places_of(counted))
    by_line: dict[tuple[str, str, int], dict[int, Place]] = {}
    for place in places:
        by_line.setdefault((place.system, place.ages, place.shards), {})[place.each] = place
    rows = [
        [SYSTEMS[system], ages, str(shards), *(_shown(line[slots]) if slots in line else "–" for slots in SLOTS_EACH)]
        for (system, ages, shards), line in by_line.items()
    ]
    columns = ["", "ages", "S", *(f"{slots} slots a shard" for slots in SLOTS_EACH)]
    note = (
        f"RSN of `{OURS}` as a share of FiboR's, ± half width of the 95 % interval over pairs of the same seed; in "
        f"brackets as a share of the best other policy's. {counted_size(counted)}, 10 rounds."
    )
    claims = list(_claims(places, counted_size(counted))) if places else []
    return Summary(columns, rows, list(_panels(places)), claims, [note])


def _shown(place: Place) -> str:
    fibor, best = place.ratio("fibor"), place.ratio(place.best)
    width = 0.0 if fibor.half_width is None else fibor.half_width
    return f"{fibor.value:.2f} ± {width:.2f} ({place.best} {best.value:.2f})"


def _panels(places: Sequence[Place]) -> Iterator[Panel]:
    for system, shown in SYSTEMS.items():
        for shards in sorted({place.shards for place in places}):
            lines = []
            for ages in dict.fromkeys(place.ages for place in places):
                line = [p for p in places if (p.system, p.shards, p.ages) == (system, shards, ages)]
                means = [place.ratio("fibor") for place in line]
                errors = [mean.half_width or 0.0 for mean in means]
                lines.append(Series(ages, [place.each for place in line], [mean.value for mean in means], errors))
            yield Panel(f"{shown}, S = {shards}", "slots a shard", f"RSN of {OURS} / FiboR", lines)


def _claims(places: Sequence[Place], size: str) -> Iterator[Claim]:
    over = _mean(places, "fibor")
    yield Claim(
        f"{OURS} retrains less than FiboR, mean of the map",
        "–",
        percent(1 - over),
        size,
        f"Over all {len(places)} places.",
    )
    few = [p for p in places if p.ages in RECENT and p.system == "cause-no-sc" and p.each in FEW]
    seeds = len(places[0].floor)
    if seeds > FRESH + 1:
        fresh = [place.from_seed(FRESH) for place in places]
        sentence = f"Its constants were chosen on the seeds before. {sum(map(_is_behind, fresh))} places behind."
        if few:
            less = percent(1 - _mean([place.from_seed(FRESH) for place in few], "fibor"))
            sentence += f" {less} where ages are recent, shards fixed and slots few."
        what = f"{OURS} retrains less than FiboR, seeds {FRESH} to {seeds - 1} alone"
        yield Claim(what, "–", percent(1 - _mean(fresh, "fibor")), size, sentence)
    if all(INFORMED in place.rsn for place in places):
        bound = sum(place.ratio("fibor", INFORMED).value for place in places) / len(places)
        yield Claim(
            "a policy that knows the ages retrains less than FiboR, mean of the map",
            "–",
            percent(1 - bound),
            size,
            "It keeps the best sub-models for the true ages: no choice of what to evict can be expected to gain more.",
        )
    binding = [place for place in places if place.binds]
    if binding:
        where = f"the {len(binding)} of {len(places)} places where FiboR is at least 5 % above the floor"
        yield Claim(
            f"{OURS} retrains less than FiboR, {where}",
            "–",
            percent(1 - _mean(binding, "fibor")),
            size,
            "A part of the map that was chosen after its mean was seen.",
        )
    if few:
        where = f"ages {' and '.join(RECENT)}, fixed shards, {' and '.join(map(str, FEW))} slots a shard"
        what = f"{OURS} retrains less than FiboR, {where}"
        yield Claim(what, "–", percent(1 - _mean(few, "fibor")), size, f"{len(few)} places.")
    worst = max(places, key=lambda place: place.ratio(place.best).value)
    behind = [place for place in places if _is_behind(place)]
    sentence = f"Behind by more than 2 % and outside the interval: {len(behind)} of {len(places)} places."
    ratio = worst.ratio(worst.best)
    yield Claim(f"{OURS} against the best other policy, worst place", "–", f"{ratio:.3f}", size, f"{worst}. {sentence}")
    if all(INFORMED in place.rsn for place in places):
        ratios = [place.ratio(INFORMED).value for place in places]
        farthest = places[ratios.index(max(ratios))]
        beyond = sum(value > 1.05 for value in ratios)
        sentence = f"Worst {max(ratios):.3f}: {farthest}. More than 5 % behind: {beyond} of {len(places)} places."
        mean = f"{_mean(places, INFORMED):.3f}"
        yield Claim(f"{OURS} against a policy that knows the ages, mean of the map", "–", mean, size, sentence)


def _is_behind(place: Place) -> bool:
    ratio = place.ratio(place.best)
    return ratio.value > 1.02 and ratio.value - (ratio.half_width or 0.0) > 1


def _mean(places: Sequence[Place], other: str) -> float:
    return sum(place.ratio(other).value for place in places) / len(places)


FIGURE = Figure("policy-map", "Policies over ages, shards and slots", paper.POLICY_MAP, cells, summarise)
