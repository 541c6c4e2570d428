"""Some seconds after a forget, the memory of the process and its workers holds nothing whole of what was forgotten."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cause.device.device import Cause
from cause.device.vault import EnvKeySource, Vault
from tests.device.homes import MASTER
from tests.device.memory_probe import CLASSES, FEATURES, KEY, learner
from tests.probed_process import Probe, left_after, report
from tests.process_memory import Needles, readable, search
from tests.service.services import Daemon
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not readable(), reason="the memory of processes cannot be read here (/proc/PID/mem)"),
    pytest.mark.fresh_processes,
]
ROWS = 150


@pytest.fixture(autouse=True)
def master_key(monkeypatch):
    monkeypatch.setenv("CAUSE_TEST_KEY", MASTER)


def rows(seed: int, dtype: str, count: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(count, FEATURES)).astype(dtype), draw.integers(CLASSES, size=count)


def needles_of(x: np.ndarray) -> list[Needles]:
    """Each row as it was uploaded and as learners hold it."""
    kinds = {"float32", "float64", x.dtype.name}
    return [Needles({f"row {i} {kind}": row.tobytes() for i, row in enumerate(x.astype(kind))}) for kind in kinds]


def keys_in(folder: Path) -> dict[bytes, bytes]:
    """All data keys, from a copy of the vault: reading the vault itself would disturb nothing, but this cannot."""
    copy = folder / "copy of the vault"
    shutil.copytree(folder / "home" / "vault", copy)
    with Vault.open(copy, EnvKeySource("CAUSE_TEST_KEY"), read_only=True) as vault:
        keys = {name: vault.key(name) for name in vault.names()}
    shutil.rmtree(copy)
    return keys


QUICK = {("sklearn", "float64", 0, "later"), ("sklearn", "float32", 2, "now")}
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
    for case in (
        (model, dtype, workers, repair)
        for model, dtype in (("sklearn", "float32"), ("sklearn", "float64"), ("torch", "float32"))
        for workers in (0, 2, -2)
        for repair in ("now", "later")
    )
]


@pytest.mark.parametrize(("model", "dtype", "workers", "repair"), CASES)
def test_no_forgotten_sample_and_no_destroyed_key_is_left_in_memory(tmp_path, model, dtype, workers, repair):
    uploads = {user: rows(seed, dtype) for seed, user in enumerate(("alice", "bob", "carol"))}
    for user, (x, y) in uploads.items():
        np.save(tmp_path / f"{user}.x.npy", x)
        np.save(tmp_path / f"{user}.y.npy", y)
    with Probe("tests.device.memory_probe", tmp_path, model, workers, repair) as probe:
        probe.wait_for("learned")
        before = keys_in(tmp_path)
        held = Needles({name.hex(): key for name, key in before.items()})
        assert search(probe.process.pid, [held]), "the search finds nothing: a vault in use holds its keys"
        probe.go_on()
        probe.wait_for("forgot")
        destroyed = {f"key {n.hex()}": before[n] for n in before.keys() - keys_in(tmp_path).keys()}
        assert destroyed
        hits = left_after(probe.process.pid, [*needles_of(uploads["alice"][0]), Needles(destroyed)])
        assert not hits, report(hits)


@pytest.fixture
def service(tmp_path):
    """A service on a home, in a process of its own."""
    settings: dict[str, Any] = {"system": "frugal", "shards": 2, "slots": 8}
    Cause(tmp_path / "home", learner=learner("sklearn"), key=KEY, **settings).close()
    daemon = Daemon(tmp_path / "home").start()
    yield daemon
    daemon.kill()


def text_of(row: np.ndarray) -> bytes:
    """A row as a client sends it in JSON."""
    return json.dumps(row.tolist()).encode()


def upload_text(client, x: np.ndarray) -> None:
    samples = b",".join(b'{"x":' + text_of(row) + b',"y":%d}' % (i % CLASSES) for i, row in enumerate(x))
    headers = {"Content-Type": "application/json"}
    answer = client._http.post("/v1/users/alice/samples", content=b'{"samples":[' + samples + b"]}", headers=headers)
    assert answer.status_code == 201, answer.text


def learn_round(client) -> None:
    number = client.close_round().round
    wait_until(lambda: client.round(number).state == "trained")


@pytest.mark.long
def test_a_service_holds_nothing_of_what_it_forgot(tmp_path, service):
    arrays, texts, single, others = (rows(seed, "float32", count)[0] for seed, count in enumerate((100, 40, 10, 150)))
    with service.client(service.token("operator", "ingest", "predict")) as client:
        client.upload("alice", arrays, np.arange(len(arrays)) % CLASSES)
        upload_text(client, texts)
        for row in single:
            upload_text(client, row[None])
        learn_round(client)
        for _ in range(200):
            client.predict(others[:8])
        client.upload("bob", others, np.arange(len(others)) % CLASSES)
        learn_round(client)
        before = keys_in(tmp_path)
        client.erase("alice")
        destroyed = {f"key {n.hex()}": before[n] for n in before.keys() - keys_in(tmp_path).keys()}
        assert destroyed
        written = Needles({f"row {i} as text": text_of(row) for i, row in enumerate([*texts, *single])})
        needles = [*needles_of(np.concatenate([arrays, texts, single])), written, Needles(destroyed)]
        hits = left_after(service.process.pid, needles)
        assert not hits, report(hits)
