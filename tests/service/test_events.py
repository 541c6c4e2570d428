"""What happens is told to whoever listens, and a stop ends all streams, whenever it comes."""

import asyncio
import signal
import threading

import pytest

from cause.client import Client
from cause.service.events import Events
from tests.service.services import Running


@pytest.fixture
def ended():
    """A deadlock would not end by itself."""

    def too_late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_stop_signal_that_comes_while_a_stream_begins_ends_it(ended):
    events = Events()
    events.publish("hello")

    class Interrupted(list):
        def __iter__(self):
            signal.raise_signal(signal.SIGUSR1)  # the handler runs here, within this thread
            return super().__iter__()

    events._kept = Interrupted(events._kept)  # type: ignore[assignment]
    before = signal.signal(signal.SIGUSR1, lambda *_: events.close())

    async def streamed():
        return [text async for text in events.stream(0, {})]

    try:
        assert len(asyncio.run(streamed())) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_a_stream_ends_with_its_token(tmp_path, monkeypatch, ends):
    with Running(tmp_path / "home") as running:
        tokens, events = running.service.tokens, running.service.events
        token, running.secrets["leaving"] = tokens.create(["auditor"], expires_s=100)
        with running.http.stream("GET", "/v1/events", headers=running.headers("leaving")) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: hello"
            events.publish("upload.staged", samples=1, staged=1)
            while next(lines) != "event: upload.staged":
                pass
            if ends == "revoked":
                tokens.revoke(token.id)
            else:
                monkeypatch.setattr(tokens, "_clock", lambda: token.expires)
            again = threading.Timer(2.0, events.close)  # or it would wait for ever
            again.start()
            events.publish("upload.staged", samples=2, staged=3)
            assert not any('"samples": 2' in line for line in lines)
            again.cancel()
            assert not events._closed, "the stream ended by itself"


def test_a_stream_on_which_nothing_happens_ends_with_its_token_too(monkeypatch):
    monkeypatch.setattr("cause.service.events.BEAT_S", 0.05)
    left = [True, True, False]

    async def streamed():
        return [text async for text in Events().stream(None, {}, lambda: left.pop(0))]

    assert asyncio.run(asyncio.wait_for(streamed(), 5))[1:] == [": still here\n\n"] * 2


def test_ids_go_on_over_a_restart(tmp_path):
    """A client that comes back with the last id of the run before gets what happened since the restart."""
    ids = []
    for _ in range(2):
        with Running(tmp_path / "home") as device:
            for number in range(3):
                device.service.events.publish("upload.staged", samples=number)
            ids.append([event.id for event in device.service.events._kept])
            assert all(len(str(id_)) <= 15 for id_ in ids[-1]), "the header takes so many digits"
    assert min(ids[1]) > max(ids[0])
    with Running(tmp_path / "home") as device, Client(str(device.http.base_url), device.secrets["auditor"]) as client:
        device.service.events.publish("upload.staged", samples=7)
        events = client.events(after=max(ids[1]))
        assert next(events).kind == "hello"
        assert next(events).data == {"samples": 7}
