"""Whatever goes wrong while a service opens or closes, its home is free afterwards and no thread of it is left."""

import threading

import pytest

from cause.device.home.home import Home
from cause.service.baselines import Comparison
from cause.service.batching import PredictionBatcher
from cause.service.erasures import Erasures
from cause.service.history import HistoryFile, Recorder
from cause.service.service import Service
from cause.service.settings import ServeSettings
from cause.service.tokens import Tokens
from cause.service.trainer import Trainer
from cause.service.verifications import Verifications
from tests.device.homes import opened

CLOSED = (
    (Erasures, "close"),
    (PredictionBatcher, "close"),
    (Trainer, "stop"),
    (Recorder, "stop"),
    (HistoryFile, "close"),
    (Verifications, "close"),
    (Comparison, "close"),
    (Tokens, "close"),
)


class BrokenError(Exception):
    """What a part raises here."""


@pytest.fixture
def home(tmp_path):
    opened(tmp_path / "home").close()
    return tmp_path / "home"


def broken(*_, **__):
    raise BrokenError


def threads():
    """The threads of a service that are alive."""
    names = {"trainer", "history", "predictions", "verifications", "expected accuracy"}
    return {thread for thread in threading.enumerate() if thread.name in names}


@pytest.mark.parametrize(("part", "method"), CLOSED, ids=[part.__name__ for part, _ in CLOSED])
def test_a_part_that_cannot_be_closed_leaves_nothing_else_open(home, monkeypatch, part, method):
    before = threads()
    closed = []
    close, finish = Home.close, getattr(part, method)
    with monkeypatch.context() as patch:
        patch.setattr(Home, "close", lambda self: (closed.append(self), close(self)))
        patch.setattr(part, method, lambda *of: (finish(*of), broken()))
        service = Service(home, ServeSettings(repair="never", grace="5s"))
        service.start()
        with pytest.raises(BrokenError):
            service.close()
    assert closed == [service.home]
    assert threads() <= before
    service.close()  # changes nothing
    Service(home, ServeSettings(repair="never")).close()


@pytest.mark.parametrize(
    "part", [Tokens, Verifications, HistoryFile, Trainer, Erasures], ids=lambda part: part.__name__
)
def test_a_part_that_cannot_be_opened_leaves_nothing_open(home, monkeypatch, part):
    before = threads()
    with monkeypatch.context() as patch:
        patch.setattr(part, "__init__", broken)
        with pytest.raises(BrokenError):
            Service(home, ServeSettings(repair="never"))
    assert threads() <= before
    Service(home, ServeSettings(repair="never")).close()
