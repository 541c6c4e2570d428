"""What happens is told to whoever listens, and a stop ends all streams, whenever it comes."""

import asyncio
import signal

import pytest

from cause.serve.events import Events


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
    events.tell("hello")

    class Interrupted(list):
        def __iter__(self):
            signal.raise_signal(signal.SIGUSR1)  # the handler runs here, within this thread
            return super().__iter__()

    events._kept = Interrupted(events._kept)
    before = signal.signal(signal.SIGUSR1, lambda *_: events.close())

    async def streamed():
        return [text async for text in events.stream(0, {})]

    try:
        assert len(asyncio.run(streamed())) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
