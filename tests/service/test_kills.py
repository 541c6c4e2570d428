"""Killed while it is used, the service loses nothing that it promised."""

from cause.device.device import Cause
from cause.device.store.blocks import Files
from cause.device.vault import Vault
from tests.service.load import make_home, readable, under_kills


def test_no_promise_is_broken_by_kills(tmp_path, thorough):
    assert under_kills(tmp_path / "home", 5 if thorough else 1) == []


def test_a_sample_that_can_still_be_read_would_be_seen(tmp_path, monkeypatch):
    daemon = make_home(tmp_path / "home", "bayes", 3)
    with Cause(daemon.folder) as device:
        for thorough in (False, True):
            assert readable(daemon.folder, {"user 1": "x"}, 0, thorough=thorough) != []
        device.forget("user 1", repair="later")
        for thorough in (False, True):
            assert readable(daemon.folder, {"user 1": "x"}, 0, thorough=thorough) == []
        monkeypatch.setattr(Vault, "erase", lambda self, names: frozenset())
        monkeypatch.setattr(Files, "remove", lambda self, names: None)
        device.forget("user 2", repair="later")
    assert readable(daemon.folder, {"user 2": "x"}, 0) != []
