"""Homes that earlier versions made: they open, verify, and go on; nothing that was forgotten comes back.

A new archive in `tests/fixtures/homes` is picked up by itself; `make.py` there says how one is made.
"""

import json
import tarfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cause.cli import main
from cause.device.config import read_config
from cause.device.device import Cause
from cause.device.fsck import OTHER_FORMAT, examine_home
from cause.device.receipts.receipts import Bundle
from cause.device.store.layout import FORMAT
from cause.engine.partition import Partitioner
from cause.errors import HomeError
from cause.lab.trace import read_trace
from tests.clean_room import trained_on
from tests.fixtures.homes.describe import described, heads, held, retained, row_digests, rows, sub_models
from tests.quick import quick_only

FOLDER = Path(__file__).parents[1] / "fixtures" / "homes"
ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
NAMES = [path.name.removesuffix(".tar.xz") for path in ARCHIVES]


class Earlier:
    """An unpacked archive."""

    def __init__(self, archive: Path, folder: Path) -> None:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        self.folder, self.home = folder, folder / "home"
        self.expected = json.loads((folder / "expected.json").read_text())
        self.inputs = np.load(folder / "inputs.npy")
        with np.load(folder / "more.npz") as arrays:
            users = sorted({name.rpartition("_")[0] for name in arrays.files})
            self.more = {user: (arrays[f"{user}_x"], arrays[f"{user}_y"]) for user in users}

    @property
    def backup(self) -> Path:
        return self.folder / "backup.tar"

    def opened(self) -> Cause:
        if self.expected["environment"].startswith("torch"):
            pytest.importorskip("torch")
        return Cause(self.home)

    def same_bits(self, device: Cause) -> bool:
        """Whether this machine trains the same bits as the one that made the home."""
        return device.learner.environment == self.expected["environment"]

    def check_verified(self, device: Cause) -> None:
        """Every stored sub-model is what the retained samples give; in another environment nobody can know."""
        verification = device.verify(processes=0)
        assert (verification.mismatched, verification.wrong) == ([], [])
        assert verification.sub_models == len(device.memory)
        if self.same_bits(device):
            assert not verification.unverifiable


QUICK = [
    path for path in ARCHIVES
    if path.name.startswith("format") or path.name in ("0.1.0-frugal-full.tar.xz", "0.1.0-killed-accepted.tar.xz")
]  # fmt: skip
"""A home of each format, and one that was killed. All of them are opened and their receipts checked in every run."""


@pytest.fixture(params=ARCHIVES, ids=NAMES)
def any_earlier(request, tmp_path):
    return Earlier(request.param, tmp_path)


@pytest.fixture(params=quick_only(ARCHIVES, QUICK), ids=NAMES)
def earlier(request, tmp_path):
    return Earlier(request.param, tmp_path)


CLOSED = [path for path in ARCHIVES if "killed" not in path.name]


@pytest.fixture(params=quick_only(CLOSED, QUICK), ids=[path.name[:-7] for path in CLOSED])
def closed(request, tmp_path):
    """A home that was closed: opening it leaves its log and its requests as they are."""
    return Earlier(request.param, tmp_path)


def problems(home: Path) -> list[str]:
    return [f"{problem.what}: {problem.remedy}" for problem in examine_home(home).problems]


def cause(capsys, *args, code: int = 0):
    """Run a command in this process: what it prints."""
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (code, "")
    return json.loads(out) if "--json" in args else out


def test_there_are_homes_of_every_format():
    formats = {FORMAT}
    for archive in ARCHIVES:
        with tarfile.open(archive) as tar:
            formats.add(json.load(tar.extractfile("expected.json"))["format"])
    assert formats == set(range(1, FORMAT + 1))


def test_opens_with_all_that_it_held_and_verifies(any_earlier, request):
    expected = any_earlier.expected
    if expected["format"] == FORMAT:
        assert problems(any_earlier.home) == []
    for _ in range(2):  # what the first opening made of it can be opened, too
        with closing(any_earlier.opened()) as device:
            description = json.loads(json.dumps(described(device, any_earlier.inputs)))
            if not any_earlier.same_bits(device):
                description["predictions"] = expected["predictions"]  # sums may be rounded otherwise
            assert description == {name: expected[name] for name in description}
            assert {user: device.home.staged(user) for user in expected["staged"]} == expected["staged"]
            assert device.home.receipts.size == expected["log_size"]
            any_earlier.check_verified(device)
        assert problems(any_earlier.home) == []
        if "killed" in request.node.name:
            assert examine_home(any_earlier.home).notes == []  # the opening destroyed what the kill had left


def test_a_reader_sees_the_same(closed):
    closed.opened().close()
    with closing(Cause(closed.home, read_only=True)) as device:
        assert sub_models(device) == closed.expected["sub_models"]
        assert held(device) == closed.expected["held"]


def test_who_only_reads_does_not_change_an_older_format(earlier):
    if earlier.expected["format"] == FORMAT:
        pytest.skip("it has the present format")
    before = contents(earlier.home)
    with pytest.raises(HomeError, match=f"older format {earlier.expected['format']}"):
        Cause(earlier.home, read_only=True)
    assert any("older format" in problem for problem in problems(earlier.home))
    assert [problem.remedy for problem in examine_home(earlier.home).problems] == [OTHER_FORMAT]
    assert contents(earlier.home) == before


def contents(home: Path) -> dict[str, bytes]:
    """Every file but those that SQLite makes for readers."""
    files = (path for path in home.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


def test_receipts_still_hold(any_earlier):
    with closing(any_earlier.opened()) as device:
        kept = device.home.receipts
        assert str(kept.verifier) == any_earlier.expected["verifier"]
        for body in any_earlier.expected["receipts"]:
            number = body.pop("number")
            given = json.loads((any_earlier.folder / "receipts" / f"{number}.json").read_text())
            assert kept.verified_body(Bundle.parse(given)) == body
            assert kept.verified_body(number) == body
            assert kept.verified_body(body["request"])["request"] == body["request"]
            assert device.verify(Bundle.parse(given), processes=0).holds


def test_a_home_of_an_earlier_version_forgets_repairs_and_learns_another_round(earlier):
    leaving, after = earlier.expected["next"], earlier.expected["after"]
    with closing(earlier.opened()) as device:
        before = rows(retained(device))
        device.forget(leaving, repair="now")
        assert rows(retained(device)) == Counter({row: n for row, n in before.items() if row[0] != leaving})
        assert device.waiting() == []
        if earlier.same_bits(device):
            assert heads(device) == after["forgotten"]
        earlier.check_verified(device)
    assert problems(earlier.home) == []
    check_learns(earlier, "forgotten, learned")


def test_a_home_of_an_earlier_version_learns_another_round(earlier):
    check_learns(earlier, "learned")


def check_learns(earlier: Earlier, after: str) -> None:
    """A round more: exactly its samples come, the heads are those that the making version had, and it all stays."""
    with closing(earlier.opened()) as device:
        before = rows(retained(device))
        t = device.learn(earlier.more, repair="now").round
        added = [{"user": user, "round": t, "rows": row_digests(*own)} for user, own in earlier.more.items()]
        assert rows(retained(device)) == before + rows(added)
        if earlier.same_bits(device) and after in earlier.expected["after"]:
            assert heads(device) == earlier.expected["after"][after]
        earlier.check_verified(device)
        stored = sub_models(device)
    assert problems(earlier.home) == []
    with closing(earlier.opened()) as device:
        assert sub_models(device) == stored


def test_what_was_staged_becomes_a_round(closed):
    expected = closed.expected
    if not expected["staged"]:
        pytest.skip("nothing is staged in it")
    with closing(closed.opened()) as device:
        arrived = device.close_round()
        assert (arrived.users, arrived.samples) == (len(expected["staged"]), sum(expected["staged"].values()))
        device.repair()
        closed.check_verified(device)
    assert problems(closed.home) == []


class Recorded(Partitioner):
    """Gives each upload to the shard where another device holds what is left of it."""

    def __init__(self, device: Cause) -> None:
        self._shards = {(piece["user"], piece["round"]): piece["segment"][0] for piece in retained(device)}

    def assign(self, arrivals):
        return {user: self._shards[user, arrivals.round] for user in arrivals.uploads}


def test_repaired_heads_are_those_of_a_device_trained_without_the_forgotten_samples(earlier):
    settings = read_config(earlier.home / "cause.toml").settings
    with closing(earlier.opened()) as device:
        if not earlier.same_bits(device):
            pytest.skip("other bits are trained here")
        device.repair()
        rounds = []
        for t in range(1, device.ledger.round + 1):
            uploads: dict[str, list] = {}
            for shard in device.ledger.shards():
                for segment in device.ledger.lineage(shard):
                    for piece in segment.pieces if segment.key.round == t else ():
                        uploads.setdefault(piece.upload.user, []).append(piece.upload.arrays(piece.positions))
            rounds.append(
                {
                    user: (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
                    for user, parts in uploads.items()
                }
            )
        partition = Recorded(device) if device.system.partition == "ucdp" else None
        made = {"shards": settings.shards, "slots": 100, "seed": settings.seed}
        clean = trained_on(rounds, device.learner, settings.system, partition=partition, **made)
        assert heads(device) == heads(clean)


@pytest.mark.parametrize("opened", [False, True], ids=["unopened", "opened"])
def test_an_earlier_backup_puts_back_what_a_whole_ledger_names(earlier, capsys, opened):
    if opened:
        earlier.opened().close()
    for path in (earlier.home / "sub-models").iterdir():
        path.unlink()
    assert cause(capsys, "restore", earlier.backup, earlier.home, "--json")["ledger"] == "live"
    with closing(earlier.opened()) as device:
        assert rows(retained(device)) == rows(earlier.expected["retained"])
        device.repair()
        assert device.waiting() == []
        earlier.check_verified(device)
    assert problems(earlier.home) == []


@pytest.mark.parametrize("opened", [False, True], ids=["unopened", "opened"])
def test_an_earlier_backup_stands_in_for_a_lost_ledger(earlier, capsys, request, opened):
    rewritten = set()
    if opened:
        with closing(earlier.opened()) as device:
            uploads = device.home.database.rows("SELECT pseudonym, round FROM uploads WHERE layout=1")
            rewritten = {(device.home.directory.name(pseudonym), round_) for pseudonym, round_ in uploads}
    elif "killed" in request.node.name:
        pytest.skip("the request that was under way is lost with the ledger that knew it")
    for path in earlier.home.glob("ledger.db*"):
        path.unlink()
    done = cause(capsys, "restore", earlier.backup, earlier.home, "--discard-later", "--json")
    assert done["ledger"] == "backup"
    with closing(earlier.opened()) as device:
        assert rows(retained(device)) <= rows(earlier.expected["retained"])  # nothing that was forgotten comes back
        counts = held(device)
        for user, rounds in earlier.expected["restored"].items():
            for t, count in rounds.items():
                # what had lost samples is written anew by the first opening: older backups cannot bring it back
                assert counts.get(user, {}).get(t, 0) >= count or (user, int(t)) in rewritten
        device.repair()
        assert device.waiting() == []
        earlier.check_verified(device)
    assert problems(earlier.home) == []


def test_its_history_reads_as_it_did_and_simulates(closed, capsys):
    closed.opened().close()
    trace = closed.folder / "trace.jsonl"
    assert cause(capsys, "trace", closed.home) == trace.read_text()
    read_trace(trace)
    payload = cause(capsys, "simulate", "--trace", trace, "--partition", "given", "--json")
    assert {name: payload[name] for name in closed.expected["simulated"]} == closed.expected["simulated"]


def test_tokens_open_what_they_opened(closed):
    if "secrets" not in closed.expected:
        pytest.skip("it has no tokens")
    from cause.service.service import tokens_of

    closed.opened().close()
    secrets = closed.expected["secrets"]
    with closing(tokens_of(closed.home)) as tokens:
        own = tokens.find(secrets["ada"])
        assert own is not None
        assert (tokens.belongs_to(own, "ada"), tokens.belongs_to(own, "bob")) == (True, False)
        assert tokens.find(secrets["operator"]).scopes == {"operator", "ingest"}
        assert tokens.find(secrets["revoked"]) is None
