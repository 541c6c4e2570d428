"""Receipts: signed, logged, checked here and elsewhere; no digest and no name in them."""

import hashlib
import json
import os
import re
import shutil
import signal
from dataclasses import replace

import pytest

from cause.cli import main
from cause.device.device import Cause
from cause.device.log import VerifierKey, open_checkpoint, verify_consistency
from cause.device.receipts.receipts import SALT_BYTES, Bundle, nonce_digest
from cause.engine.requests import Request
from cause.errors import LogError, PassingError, RequestError
from tests.device.homes import bayes, killed, learn, opened


@pytest.fixture
def device(tmp_path):
    with opened(tmp_path / "home") as device:
        learn(device, alice=40, bob=30)
        learn(device, alice=10, bob=20)
        yield device


def test_a_request_has_a_receipt_when_it_is_in_effect_and_one_when_it_is_repaired(device):
    (done,) = device.forget("alice", rounds=[1], count=5, repair="later")
    kept = device.home.receipts
    (effect,) = kept.listed()
    assert (effect["kind"], effect["request"], effect["samples"]) == ("effect", done.ids[0], 5)
    assert [tuple(each["sub_model"]) for each in effect["shards"][0]["destroyed"]] == list(done.dropped)
    device.repair()
    assert [each["kind"] for each in kept.listed()] == ["effect", "repair"]
    assert kept.listed()[1]["shards"][0]["serving"]["sub_model"][1] == 2
    assert device.verify(done.ids[0], processes=0).holds
    assert device.verify(0, processes=0).holds


def test_a_repair_has_a_receipt_once_all_that_the_request_touched_is_trained(tmp_path):
    with opened(tmp_path / "home", shards=1) as device:
        for _ in range(3):
            learn(device, alice=10)
        device.forget("alice", rounds=[1], count=5, repair="later")
        kinds = []
        while device.waiting():
            kinds.append([each["kind"] for each in device.home.receipts.listed()])
            device.repair(stop=lambda: True)
        assert kinds == [["effect"]] * 3
        assert [each["kind"] for each in device.home.receipts.listed()] == ["effect", "repair"]


def test_what_a_receipt_says_is_signed_whole(device):
    """A field that is left out of what is signed would say nothing to anybody else."""
    (done,) = device.forget("alice", rounds=[1], count=5)
    effect, repair = device.home.receipts.listed()
    own = device.home.receipts.bundle(effect["number"], own=True).check(device.home.receipts.verifier)
    everywhere = {
        "format", "kind", "request", "received", "deadline", "released", "in_effect", "samples", "recipe",
        "environment", "software",
    }  # fmt: skip
    in_log = everywhere | {"number", "served_with", "round", "salt", "shards"}
    assert set(effect) == in_log | {"tainted_exports", "rsn_planned"}
    assert set(repair) == in_log | {"repaired"}
    assert set(own) == everywhere | {"form", "entry"}
    assert {own[name] == effect[name] for name in everywhere} == {True}
    assert (effect["environment"], effect["recipe"]) == (
        device.learner.environment, device.learner.recipe_digest.hex()
    )  # fmt: skip
    assert effect["received"] <= effect["released"] <= effect["in_effect"] <= repair["repaired"] < effect["deadline"]
    assert (effect["request"], effect["rsn_planned"], len(effect["salt"])) == (done.ids[0], done.rsn, 2 * SALT_BYTES)
    assert effect["salt"] != repair["salt"]


def test_receipts_are_proved_elsewhere_with_the_verifier_key_alone(device):
    device.forget("alice", rounds=[1], count=5)
    device.forget("bob", rounds=[1], count=5)
    key = VerifierKey.parse(str(device.home.receipts.verifier))
    for number in range(4):
        bundle = Bundle.parse(json.loads(json.dumps(device.home.receipts.bundle(number).json())))
        assert bundle.check(key)["samples"] == 5


@pytest.mark.parametrize("part", ["receipt", "proof", "checkpoint", "number"])
def test_a_changed_receipt_proof_or_checkpoint_does_not_hold(device, part):
    device.forget("alice", rounds=[1], count=5)
    bundle = device.home.receipts.bundle(0).json()
    if part == "receipt":
        bundle["receipt"] = bundle["receipt"].replace('"samples": 5', '"samples": 4')
    elif part == "checkpoint":
        bundle["checkpoint"] = bundle["checkpoint"].replace("\n2\n", "\n3\n")
    elif part == "proof":
        bundle["proof"] = ["A" * 43 + "="]
    else:
        bundle["number"] = 1
    with pytest.raises(LogError):
        Bundle.parse(bundle).check(device.home.receipts.verifier)


def test_a_receipt_of_another_device_is_refused(device, tmp_path):
    device.forget("alice", rounds=[1], count=5)
    with opened(tmp_path / "other", learner=bayes()) as other:
        learn(other, alice=40)
        other.forget("alice", rounds=[1], count=5)
        with pytest.raises(LogError):
            device.verify(other.home.receipts.bundle(0), processes=0)


def test_a_receipt_of_a_log_that_was_rewritten_is_refused(device, tmp_path):
    device.close()
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    with Cause(tmp_path / "copy") as copy:
        copy.forget("alice", rounds=[1], count=5)
        bundle = copy.home.receipts.bundle(0)
    with Cause(tmp_path / "home") as again:
        again.forget("bob")
        assert bundle.check(again.home.receipts.verifier), "this device has signed it"
        with pytest.raises(LogError, match="not one of this log: it was rewritten"):
            again.verify(bundle, processes=0)


def test_the_log_only_grows(device):
    kept = device.home.receipts
    device.forget("alice", rounds=[1], count=5)
    before = open_checkpoint(kept.checkpoint(), kept.verifier)
    device.forget("alice", rounds=[1], count=5)
    now = open_checkpoint(kept.checkpoint(), kept.verifier)
    verify_consistency(before.size, now.size, kept.consistency(before), before.root, now.root)
    with device.home.database.transaction():
        device.home.database.run("DELETE FROM leaves WHERE number=0")
        device.home.database.run("UPDATE nodes SET hash=zeroblob(32) WHERE number=0")
    with pytest.raises(LogError):
        kept.checkpoint()
    with pytest.raises(LogError):
        kept.consistency(before)


def test_a_receipt_whose_shard_changed_later_is_superseded_not_wrong(device):
    (first,) = device.forget("alice", rounds=[1], count=5)
    assert device.verify(first.ids[0], processes=0).superseded == []
    effect = device.verify(0, processes=0)
    assert [each for each in effect.superseded if "data" in each] == []
    device.forget("alice", rounds=[1], count=5)
    verification = device.verify(0, processes=0)
    assert any("data of shard" in each for each in verification.superseded)
    assert verification.holds


def test_new_rounds_do_not_supersede_what_a_receipt_says_of_the_data(device):
    device.forget("alice", rounds=[1], count=5)
    learn(device, alice=7, bob=7)
    verification = device.verify(0, processes=0)
    assert verification.holds
    assert [each for each in verification.superseded if "data" in each] == []


def test_data_that_is_not_what_the_receipt_commits_to_is_wrong(device):
    device.forget("alice", rounds=[1], count=5)
    shard = device.home.receipts.listed()[0]["shards"][0]["shard"]
    segment = next(iter(device.ledger.lineage(shard)))
    segment._manifest = b"x" * 32
    assert device.verify(0, processes=0).wrong == [f"data of shard {shard}"]


def test_a_sub_model_that_is_not_what_the_receipt_commits_to_is_wrong(device):
    (done,) = device.forget("alice", rounds=[1], count=5)
    assert device.verify(done.ids[0], processes=0).wrong == []
    key = device.heads()[done.shards[0].shard].key
    device.memory._sub_models[key] = replace(device.memory[key], identity=b"x" * 32)
    assert device.verify(done.ids[0], processes=0).wrong == [f"sub-model {key}"]


def test_receipts_name_nobody_and_hold_no_digest_of_data_or_weights(device):
    identities = [device.memory[key].identity.hex() for key in device.memory.stored()]
    manifests = [segment.manifest.hex() for shard in device.ledger.shards() for segment in device.ledger.lineage(shard)]
    device.forget("alice", rounds=[1], count=5)
    identities += [device.memory[key].identity.hex() for key in device.memory.stored()]
    manifests += [s.manifest.hex() for shard in device.ledger.shards() for s in device.ledger.lineage(shard)]
    manifests += [device.home.receipts.manifest(shard, 2).hex() for shard in device.ledger.shards()]
    text = json.dumps(device.home.receipts.listed())
    assert "alice" not in text
    expected = {device.learner.recipe_digest.hex(), *(each["request"] for each in device.home.receipts.listed())}
    others = set(re.findall(r"[0-9a-f]{32,}", text)) - expected
    assert others
    assert not others & {*identities, *manifests}


def test_the_keys_of_what_a_receipt_commits_to_go_with_it(device):
    device.forget("alice", rounds=[1], count=5)
    (before,) = device.home.database.row("SELECT key FROM manifests")
    device.forget("alice", rounds=[1], count=5)
    assert bytes(before) not in device.home.vault


def test_a_receipt_that_a_crash_kept_from_being_signed_is_issued_at_the_next_opening(device, tmp_path, monkeypatch):
    from cause.device.receipts.receipts import Receipts

    monkeypatch.setattr(Receipts, "issue", lambda self: None)
    (done,) = device.forget("alice", rounds=[1], count=5)
    assert device.home.receipts.size == 0
    monkeypatch.undo()
    monkeypatch.setenv("CAUSE_TEST_KEY", "11" * 32)
    device.close()
    with Cause(tmp_path / "home") as again:
        assert [each["kind"] for each in again.home.receipts.listed()] == ["effect", "repair"]
        assert again.verify(done.ids[0], processes=0).holds


def test_the_commands_an_auditor_uses(device, tmp_path, capsys):
    (done,) = device.forget("alice", rounds=[1], count=5)
    home = str(tmp_path / "home")

    def run(*args) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(args))
        assert end.value.code == 0
        return capsys.readouterr().out

    log = json.loads(run("log", home, "--json"))
    (tmp_path / "checkpoint").write_text(log["checkpoint"])
    assert log["size"] == 2
    assert done.ids[0] in run("receipts", home)
    run("receipts", home, "0", "--out", str(tmp_path / "receipt.json"))
    assert "in its log" in run("verify", str(tmp_path / "receipt.json"), "--key", log["verifier"])
    payload = json.loads(run("verify", "--home", home, str(tmp_path / "receipt.json"), "--processes", "0", "--json"))
    assert payload["mismatched"] == payload["unverifiable"] == 0
    assert payload["identical"] == payload["sub_models"] > 0
    device.forget("bob", rounds=[1], count=1)
    assert "only grown since it had 2" in run("log", home, "--since", str(tmp_path / "checkpoint"))


def test_a_mismatch_ends_with_1_and_nonsense_with_2(device, tmp_path, capsys, monkeypatch):
    from cause.learners.sklearn import SklearnLearner

    home = str(tmp_path / "home")
    (tmp_path / "junk.json").write_text("{}")
    for args in (["verify"], ["verify", "7", "--home", home], ["verify", str(tmp_path / "junk.json"), "--home", home],
                 ["receipts", home, "99"], ["log", str(tmp_path)]):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            main(args)
        assert end.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
    train = SklearnLearner.train

    def other(self, parent, lesson, seed, tick):
        state = train(self, parent, lesson, seed, tick)
        return state | {"theta_": state["theta_"] + 1e-9}

    monkeypatch.setattr(SklearnLearner, "train", other)
    with pytest.raises(SystemExit) as end:
        main(["verify", "--home", home, "--processes", "0", "--json"])
    assert end.value.code == 1
    assert json.loads(capsys.readouterr().out)["mismatched"] > 0


def test_a_receipt_commits_to_the_nonce_of_its_request_and_to_no_other(device):
    device.forget("alice", rounds=[1], count=5, nonce="drawn by alice")
    device.forget("bob", rounds=[1], count=5, nonce="drawn by bob")
    device.forget("bob", rounds=[1], count=5)
    kept = device.home.receipts
    numbers = {each["number"]: each.get("nonce_sha256") for each in kept.listed()}
    expected = hashlib.sha256(b"cause: nonce of a request\0drawn by alice").hexdigest()
    assert [numbers[0], numbers[1]] == [expected, expected], "that of the repair, too"
    assert numbers[2] not in (expected, None)
    assert numbers[4] is None
    assert kept.bundle(0).check(kept.verifier, "drawn by alice")["samples"] == 5
    for number, nonce in ((0, "drawn by bob"), (2, "drawn by alice"), (4, "drawn by alice")):
        with pytest.raises(LogError, match="does not answer the request"):
            kept.bundle(number).check(kept.verifier, nonce)
    tables = [row for (name,) in device.home.database.rows("SELECT name FROM sqlite_schema WHERE type='table'")
              for row in device.home.database.rows(f"SELECT * FROM {name}")]  # fmt: skip
    assert "drawn by" not in repr(tables), "the ledger keeps the digest only"


def test_requests_that_are_served_together_have_their_own_nonces(tmp_path):
    with opened(tmp_path / "home", system="frugal:requests=coalesced") as device:
        learn(device, alice=40, bob=30)
        device.serve([Request("alice", nonce="one"), Request("bob", nonce="two")], repair="later")
        nonces = [each["nonce_sha256"] for each in device.home.receipts.listed()]
        assert nonces == [nonce_digest("one"), nonce_digest("two")]


def test_samples_that_expire_have_no_nonce(tmp_path):
    with opened(tmp_path / "home", retain="1 rounds") as device:
        learn(device, alice=20)
        learn(device, alice=20)
        assert device.home.receipts.listed()
        assert not any("nonce_sha256" in each for each in device.home.receipts.listed())


@pytest.mark.parametrize("nonce", ["", "x" * 129, "\ud800", 7])
def test_a_nonce_is_a_text_of_1_to_128_characters(device, nonce):
    with pytest.raises(RequestError, match="a nonce is a text of 1 to 128 characters"):
        device.forget("alice", nonce=nonce)
    assert device.home.receipts.size == 0


@pytest.mark.parametrize("moment", ["effect", "receipts.issue"])
def test_a_nonce_survives_a_kill_between_acceptance_and_receipt(tmp_path, moment):
    def work():
        with opened(tmp_path / "home") as device:
            learn(device, alice=40, bob=30)
            owner = device.home.receipts if "." in moment else device.home
            setattr(owner, moment.rpartition(".")[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            device.forget("alice", nonce="n" * 128)

    killed(work)
    with Cause(tmp_path / "home", learner=bayes()) as again:
        (effect, *_) = again.home.receipts.listed()
        assert effect["nonce_sha256"] == nonce_digest("n" * 128)
        assert effect["samples"] == 40


def test_the_commands_take_a_nonce(device, tmp_path, capsys):
    home = str(tmp_path / "home")
    device.close()

    def run(*args, code=0) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(args))
        assert end.value.code == code
        out, err = capsys.readouterr()
        return out if code == 0 else err

    run("forget", home, "--user", "alice", "--nonce", "f00d")
    verifier = json.loads(run("log", home, "--json"))["verifier"]
    run("receipts", home, "0", "--out", str(tmp_path / "receipt.json"))
    away = ["verify", str(tmp_path / "receipt.json"), "--key", verifier, "--nonce"]
    assert "in its log" in run(*away, "f00d")
    assert "does not answer the request" in run(*away, "beef", code=2)
    assert "--nonce goes with --key" in run("verify", "--home", home, "--nonce", "f00d", code=2)


def test_requests_that_need_no_training_get_their_repair_while_nothing_can_be_trained(tmp_path, monkeypatch):
    """As with a cluster that is lost: the shard that waits says why, and the other's requests do not stay open."""
    with opened(tmp_path / "home") as device:
        learn(device, **dict.fromkeys("abcef", 20))
        shard_of = {user: device.ledger.pieces_of(user, 1)[0][0].shard for user in "abcef"}
        emptied = min((0, 1), key=list(shard_of.values()).count)

        def train(*arguments):
            raise PassingError("the cluster was lost")

        monkeypatch.setattr(device.engine.executor, "train", train)
        whole = [device.forget(user, repair="later")[0].ids[0] for user in shard_of if shard_of[user] == emptied]
        other = next(user for user in shard_of if shard_of[user] != emptied)
        device.forget(other, repair="later")
        with pytest.raises(PassingError, match="the cluster was lost"):
            device.repair()
        repaired = {entry["request"] for entry in device.home.receipts.listed() if entry["kind"] == "repair"}
        assert repaired == set(whole)
        assert {shard.shard: shard.problem for shard in device.status().shards} == {1 - emptied: "PassingError"}
        assert list(device.failed_shards) == [1 - emptied]
