"""Can an attacker distinguish forgotten samples from samples that were never learned? An audit on the digits.

Mislabelled images (canaries) can only be predicted by memorising them. They come in pairs: two images of the same
digit, with the same wrong label, of the same user and round. A coin decides which of the two is uploaded among honest
images, learned, and then forgotten; the other is never seen. Two attacks try to tell them apart on the device before
forgetting, after it, and on one that was retrained without them.

    python examples/membership_audit.py [--seed 0] [--seeds 1] [--json] [--out FILE]
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.cli.output import print_json, print_table, progress_bar
from cause.common.files import check_writable
from cause.common.statistics import Mean
from cause.device.device import Cause
from cause.engine.arrays import TraceData
from cause.engine.presets import PRESETS
from cause.engine.progress import Progress
from cause.engine.requests import Request
from cause.engine.samples import Part, TraceUpload
from cause.errors import CauseError
from cause.lab.audit import Estimate, attack, auc_difference, detectable_auc, finding, head_probabilities, problems
from cause.lab.clean_room import Recorded
from cause.lab.digits import BRIGHTEST, CLASSES, SHAPE, load_digits
from cause.lab.provenance import write_result
from cause.learners.recipe import Recipe
from cause.learners.torch import TorchLearner

SYSTEM, SHARDS, USERS, ROUNDS, TESTS = "frugal", 4, 8, 3, 200
CANARY_ROUNDS = (2, 3)  # not the first: something clean is there to restart from, or to fall back on
PAIRS = 200
STEPS = 2 * ROUNDS + 1

Answers = Mapping[int, NDArray[np.floating]]


@dataclass(frozen=True)
class Scene:
    """Who uploads what, with the canaries first in their uploads, and what nobody uploads."""

    rounds: list[list[TraceData]]
    x: NDArray[np.float32]
    """The canaries, pair after pair."""
    y: NDArray[np.int64]
    """Their wrong labels."""
    owner: list[str]
    """Who uploads each canary, or would have."""
    when: NDArray[np.int64]
    member: NDArray[np.bool_]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]

    def requests(self) -> list[Request]:
        """Every user asks for their canaries to be forgotten."""
        return [
            Request(upload.user, (t,), self.canaries_in(upload))
            for t, uploads in enumerate(self.rounds, start=1)
            for upload in uploads
            if self.canaries_in(upload)
        ]

    def without_canaries(self) -> list[list[TraceData]]:
        """What a device receives that never meets them."""
        return [
            [upload.keeping(range(self.canaries_in(upload), len(upload.positions))) for upload in uploads]
            for uploads in self.rounds
        ]

    def canaries_in(self, upload: TraceData) -> int:
        """How many positions, from the lowest, are canaries."""
        return int((self.member & (self.when == upload.round) & (np.array(self.owner) == upload.user)).sum())

    def shards(self, device: Cause) -> NDArray[np.int64]:
        """Where each canary's owner is: that of a canary never uploaded is where it would have been."""
        return np.array([device.ledger.placement(user) for user in self.owner], dtype=np.int64)


@dataclass(frozen=True)
class Row:
    """What an attack achieves on a model."""

    model: str
    attack: str
    auc: Estimate
    tpr: float
    minus_retrained: Estimate


@dataclass(frozen=True)
class Record:
    """The results of the audit."""

    seed: int
    forgotten: int
    never_seen: int
    detectable_auc: float
    rows: list[Row]
    identical: bool
    """Are all answers after forgetting, to the last bit, those of the retrained model?"""
    accuracy: dict[str, float]
    problems: list[str]
    seconds: float


def draw(seed: int) -> Scene:
    """Share the digits out. Each pair of canaries gets its label, owner and round before the coin is thrown."""
    rng = np.random.default_rng(seed)
    x, y = load_digits()
    order = rng.permutation(len(y))
    canaries = _pairs(order, y)
    rest = order[~np.isin(order, canaries)]
    honest, test = rest[:-TESTS], rest[-TESTS:]
    wrong = (y[canaries] + np.repeat(rng.integers(1, CLASSES, PAIRS), 2)) % CLASSES
    owner, when = np.repeat(rng.integers(0, USERS, PAIRS), 2), np.repeat(rng.choice(CANARY_ROUNDS, PAIRS), 2)
    heads = rng.random(PAIRS) < 0.5
    member = np.stack([heads, ~heads], axis=1).ravel()
    whose, arrives = rng.integers(0, USERS, len(honest)), rng.integers(1, ROUNDS + 1, len(honest))
    rounds = []
    for t in range(1, ROUNDS + 1):
        uploads = []
        for user in range(USERS):
            bad = np.flatnonzero(member & (owner == user) & (when == t))
            good = honest[(whose == user) & (arrives == t)]
            inputs = np.concatenate([x[canaries[bad]], x[good]])
            labels = np.concatenate([wrong[bad], y[good]])
            uploads.append(TraceData(TraceUpload(f"u{user}", t, (Part(len(labels)),)), inputs, labels))
        rounds.append(uploads)
    names = [f"u{user}" for user in owner.tolist()]
    return Scene(rounds, x[canaries], wrong, names, when, member, x[test], y[test])


def _pairs(order: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first images that make pairs of one digit, each beside its partner."""
    pairs: list[int] = []
    single: dict[int, int] = {}
    for row in order.tolist():
        digit = int(y[row])
        if digit in single and len(pairs) < 2 * PAIRS:
            pairs += [single.pop(digit), row]
        else:
            single[digit] = row
    return np.array(pairs)


def new_device(seed: int) -> Cause:
    """A device with enough epochs to memorise what it is given."""
    recipe = Recipe("mlp", CLASSES, SHAPE, options=(("width", 256),), epochs=30, batch_size=64, lr=5e-3, std=BRIGHTEST)
    learner = TorchLearner(recipe.composed(PRESETS[SYSTEM]))
    return Cause(learner=learner, system=SYSTEM, shards=SHARDS, memory="4MB", classes=CLASSES, seed=seed)


def learn(device: Cause, rounds: Sequence[Sequence[TraceData]], progress: Progress, done: int = 0) -> Cause:
    """Round after round."""
    for number, uploads in enumerate(rounds, start=1):
        device.learn(uploads)
        progress(done + number, STEPS)
    return device


def retrained(scene: Scene, device: Cause, seed: int, progress: Progress) -> Cause:
    """The clean room. It is given the uploads without canaries by us, not by what the device says it still has."""
    clean = new_device(seed)
    clean.engine.partition = Recorded(device)  # users stay in the shards that they have
    return learn(clean, scene.without_canaries(), progress, done=ROUNDS + 1)


def judge(scene: Scene, shards: NDArray[np.int64], answers: Mapping[str, Answers]) -> tuple[list[Row], list[str]]:
    """Attack each model's answers, and say what is wrong."""
    scores = {model: attack(each, scene.y, shards) for model, each in answers.items()}
    rows = []
    for model, attacks in scores.items():
        for name, scored in attacks.items():
            result = finding(scored, scene.member)
            gap = auc_difference(scored, scores["retrained"][name], scene.member)
            rows.append(Row(model, name, result.auc, result.tpr, gap))
    return rows, problems(scores["before"], scores["after"], scores["retrained"], scene.member)


def same_bits(one: Answers, other: Answers) -> bool:
    """Do two models give the same answers, to the last bit?"""
    return one.keys() == other.keys() and all(one[shard].tobytes() == other[shard].tobytes() for shard in one)


def run(seed: int = 0, progress: Progress = lambda done, total: None) -> Record:
    """Learn, attack, forget, attack again, and compare with a model that was retrained."""
    started = time.perf_counter()
    scene = draw(seed)
    device = learn(new_device(seed), scene.rounds, progress)
    shards = scene.shards(device)
    answers, accuracy = {"before": head_probabilities(device, scene.x)}, {"before": _accuracy(device, scene)}
    device.serve(scene.requests())
    progress(ROUNDS + 1, STEPS)
    answers["after"], accuracy["after"] = head_probabilities(device, scene.x), _accuracy(device, scene)
    clean = retrained(scene, device, seed, progress)
    answers["retrained"], accuracy["retrained"] = head_probabilities(clean, scene.x), _accuracy(clean, scene)
    rows, wrong = judge(scene, shards, answers)
    members, others = int(scene.member.sum()), int((~scene.member).sum())
    return Record(
        seed=seed,
        forgotten=members,
        never_seen=others,
        detectable_auc=detectable_auc(members, others),
        rows=rows,
        identical=same_bits(answers["after"], answers["retrained"]),
        accuracy=accuracy,
        problems=wrong,
        seconds=time.perf_counter() - started,
    )


def _accuracy(device: Cause, scene: Scene) -> float:
    return float((device.predict(scene.x_test) == scene.y_test).mean())


def show(record: Record) -> None:
    """One audit, as a table."""
    print_table(
        f"Membership audit: {record.forgotten} forgotten canaries against {record.never_seen} never seen",
        ["model", "attack", "AUC [95 %]", "TPR at 5 % FPR", "AUC − retrained [95 %]", "test accuracy"],
        [
            [
                row.model,
                row.attack,
                f"{row.auc:.3f}",
                f"{row.tpr:.1%}",
                f"{row.minus_retrained:.3f}",
                f"{record.accuracy[row.model]:.1%}",
            ]
            for row in record.rows
        ],
        note=f"After forgetting, all answers are {'' if record.identical else 'NOT '}those of the retrained model, bit "
        f"for bit. An AUC below {record.detectable_auc:.2f} may go unseen with so few canaries; a chance-level audit "
        "alone proves nothing.",
        names=2,
    )
    for problem in record.problems:
        print(problem)


def summary(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Several audits: means over the seeds, and how many intervals contain chance."""
    return [
        {
            "model": rows[0].model,
            "attack": rows[0].attack,
            "auc": asdict(Mean.of([row.auc.value for row in rows])),
            "tpr": asdict(Mean.of([row.tpr for row in rows])),
            "with_chance": sum(0.5 in row.auc for row in rows),
            "audits": len(rows),
        }
        for rows in zip(*(record.rows for record in records), strict=True)
    ]


def cells(row: Mapping[str, Any]) -> list[str]:
    """A line of the summary, for people."""
    numbers = f"{Mean(**row['auc']):.3f}", f"{Mean(**row['tpr']):.3f}"
    return [row["model"], row["attack"], *numbers, f"{row['with_chance']} of {row['audits']}"]


def show_many(records: Sequence[Record]) -> None:
    """Several audits, as a table."""
    print_table(
        f"Membership audit: {len(records)} seeds",
        ["model", "attack", "AUC ± 95 %", "TPR at 5 % FPR ± 95 %", "intervals with 0.5"],
        [cells(row) for row in summary(records)],
        note=f"After forgetting, {sum(record.identical for record in records)} of {len(records)} devices answer as the "
        "retrained model, bit for bit.",
        names=2,
    )


def audits(seeds: Sequence[int]) -> list[Record]:
    """One after the other, with a bar."""
    records: list[Record] = []
    with progress_bar("auditing") as bar:
        for number, seed in enumerate(seeds):

            def step(done: int, total: int, before: int = number) -> None:
                bar(before * total + done, len(seeds) * total)

            records.append(run(seed, step))
    return records


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 1 if the model is not the retrained one, or a single audit speaks against forgetting."""
    parser = argparse.ArgumentParser(prog="membership_audit", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the (first) seed: data, canaries and training")
    parser.add_argument("--seeds", type=int, default=1, help="how many audits")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", type=Path, help="write the result with command, commit, machine and date")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.seed < 0:
        parser.error(f"seeds are numbers from 0 and at least one audit is needed, not {options.seed}, {options.seeds}")
    try:
        if options.out:
            check_writable(options.out)
        records = audits(range(options.seed, options.seed + options.seeds))
    except CauseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    payload = asdict(records[0])
    if options.seeds > 1:
        payload = {"summary": summary(records), "records": [asdict(record) for record in records]}
    if options.json:
        print_json(payload)
    elif options.seeds == 1:
        show(records[0])
    else:
        show_many(records)
    if options.out:
        write_result(options.out, payload, program=("python", "examples/membership_audit.py"))
    wrong = not all(record.identical for record in records) or (options.seeds == 1 and bool(records[0].problems))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
