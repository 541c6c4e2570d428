"""One device and all that serves it."""

import asyncio
import gc
import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from pathlib import Path

from cause.common.hashing import digest
from cause.device.config import read_config
from cause.device.device import Cause
from cause.device.energy.model import EnergyModel
from cause.device.status import home_of
from cause.device.store.home import Home
from cause.device.store.layout import DEVICE_KEY, Layout
from cause.device.store.retrying import retried
from cause.errors import HomeError
from cause.executors import Processes
from cause.service.baselines import Comparison
from cause.service.batching import Batches
from cause.service.bodies import Bodies
from cause.service.erasing import Erasures
from cause.service.events import Events
from cause.service.input_spec import Kind
from cause.service.inputs import Form, Reader
from cause.service.journal import TellingJournal
from cause.service.metrics import Metrics
from cause.service.predictor_cache import Heads
from cause.service.problems import ProblemError
from cause.service.receive_buffer import overwrite_receive_buffer
from cause.service.settings import ServeSettings
from cause.service.tokens import Tokens
from cause.service.trainer import Trainer
from cause.service.verifying import Verifications

REMEMBERED_S = 86_400.0
MOST_REMEMBERED = 100_000
NUMBER_BYTES = 24
"""Of a probability, as text."""


class Service:
    """What the routes work with."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        self.settings, self.folder = settings, folder
        config = read_config(Layout(folder).config)
        self.model = None if settings.calibration is None else EnergyModel.load(Path(settings.calibration))
        self.device = Cause(folder, executor=Processes(settings.workers))
        try:
            self.home: Home = home_of(self.device)
            self.events, self.metrics = Events(), Metrics()
            self.heads = Heads(self.device)
            self._lock = threading.Lock()
            self._bodies: dict[str, OrderedDict[str, tuple[float, bytes]]] = {}
            self._loop: asyncio.AbstractEventLoop | None = None
            self._overwriting: set[asyncio.Task[int]] = set()
            self.verifications = Verifications(self.device, self.events, settings.verify_processes)
            self.journal = TellingJournal(self.home, self.events, self._forgotten)
            self.device.journal = self.journal
            self.tokens = Tokens(folder, token_key(self.home), tidy=self.home.time.doubt() is None)
            self._call_key = self.home.vault.commit(DEVICE_KEY, digest("calls of the service"))
            shape, dtype = config.settings.input_shape, config.settings.input_dtype
            self.reader = Reader(Form.of(self.device.learner, self.device.classes, shape), settings.unpacked_bytes)
            policy = settings.repair or ("now" if config.settings.repair == "now" else "deadline")
            self.trainer = Trainer(self.device, self.events, settings, policy)
            self.kind = Kind.of(self.reader.form, dtype or settings.samples)
            self.erasures = Erasures(self.device, self.heads)
            self.bodies = Bodies(settings.arriving_bytes, settings.unpackings)
            said = self.device.classes * (8 * self.device.controller.most + NUMBER_BYTES)
            self.batches = Batches(self.heads, settings.waiting_bytes, said)
            self.comparison = Comparison(self.device, self.model)
            self.ready = False
        except BaseException:
            self.device.close()
            raise

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin to train and to take requests, which a loop receives."""
        self._loop = loop
        gc.collect()
        gc.freeze()  # what was imported stays: collecting after an erasure then takes less time
        self.trainer.start()
        self.ready = True

    def stopping(self) -> None:
        """No more work is taken on; streams end."""
        self.ready = False
        self.events.close()

    def close(self) -> None:
        """Finish what is under way, or leave it for the next start; nothing is lost either way."""
        self.stopping()
        self.erasures.close()
        self.batches.close()
        self.trainer.stop(self.settings.grace_s)
        self.verifications.close()
        self.comparison.close()
        self.tokens.close()
        self.device.close()

    def _forgotten(self) -> None:
        """Something was: what saw it votes no more and is replayed no more, and no digest of an upload is kept."""
        self.heads.purge()
        self.verifications.forgotten()
        with self._lock:
            for kind in ("upload", "bulk"):
                self._bodies.pop(kind, None)
        if self._loop is not None:
            with suppress(RuntimeError):  # it was closed
                self._loop.call_soon_threadsafe(self._overwrite)

    def _overwrite(self) -> None:
        """On the loop: the end of an upload may still be where it was received."""
        task = asyncio.get_running_loop().create_task(overwrite_receive_buffer())
        self._overwriting.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._overwriting.discard)

    def call_id(self, token: str, kind: str, key: str | None, body: bytes, *, bound: bool = False) -> str | None:
        """The id that a call with an idempotency key has, always the same; None without a key.

        One that is bound is also of this body: should nobody remember the first, another one is another call.
        """
        if key is None:
            return None
        if not 1 <= len(key) <= 128 or not key.isprintable():
            raise ProblemError(422, "an Idempotency-Key is a text of 1 to 128 printable characters")
        name = "\0".join((token, kind, key)).encode()
        id_ = hmac.digest(self._call_key, name, "sha256").hex()[:32]
        seen, now = hashlib.sha256(body).digest(), time.monotonic()
        with self._lock:
            bodies = self._bodies.setdefault(kind, OrderedDict())
            while bodies and now - next(iter(bodies.values()))[0] >= REMEMBERED_S:
                bodies.popitem(last=False)
            if bodies.get(id_, (now, seen))[1] != seen:
                raise ProblemError(422, "this Idempotency-Key came with another request before")
            bodies[id_] = (now, seen)
            bodies.move_to_end(id_)
            while len(bodies) > MOST_REMEMBERED:
                bodies.popitem(last=False)
        return hmac.digest(self._call_key, name + b"\0" + seen, "sha256").hex()[:32] if bound else id_

    def part_of(self, call: str, user: str) -> str:
        """The id of one user's part of a call that brought samples of several."""
        return hmac.digest(self._call_key, b"\0".join((b"part", call.encode(), user.encode())), "sha256").hex()[:32]


def token_key(home: Home) -> bytes:
    """The key of users' codes in tokens that earlier versions made."""
    return home.vault.commit(DEVICE_KEY, digest("tokens of the service"))


def tokens_of(folder: Path) -> Tokens:
    """The tokens of a home, for a command: the home may be in use."""
    layout = Layout(folder)
    if not layout.config.exists():
        raise HomeError(f"{str(folder)!r} is not a home: `cause init` makes one")
    source = read_config(layout.config).source(folder)
    home = retried(partial(Home, folder, source, read_only=True))
    try:
        return Tokens(folder, token_key(home), tidy=home.time.doubt() is None)
    finally:
        home.close()
