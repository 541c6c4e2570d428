"""The service of one device: the device and everything that the routes use."""

import asyncio
import gc
import hashlib
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from cause.common.hashing import digest
from cause.device.config import read_config
from cause.device.core import home_of
from cause.device.device import Cause
from cause.device.energy.model import EnergyModel
from cause.device.home.home import Home
from cause.device.store.layout import DEVICE_KEY, Layout, not_a_home
from cause.device.store.retrying import retried
from cause.engine.executor import Executor
from cause.executors import Processes
from cause.executors.cluster.other_environments import REFUSE
from cause.executors.cluster.resources import parse_per_worker
from cause.executors.pool import WorkerPool
from cause.service.baselines import Comparison
from cause.service.batching import PredictionBatcher
from cause.service.body_reader import BodyReader
from cause.service.device_metrics import DeviceCollector
from cause.service.erasures import Erasures
from cause.service.events import Events
from cause.service.expected_accuracy import ExpectedAccuracy
from cause.service.history import HistoryFile, Recorder
from cause.service.home_time import HomeTime
from cause.service.input_spec import InputConverter
from cause.service.inputs import InputLayout, SampleReader
from cause.service.journal import PublishingJournal
from cause.service.metrics import Metrics
from cause.service.predictor_cache import PredictorCache
from cause.service.problems import ProblemError
from cause.service.quotas import Quotas
from cause.service.receive_buffer import overwrite_receive_buffer
from cause.service.settings import ServeSettings
from cause.service.tokens import Tokens
from cause.service.trainer import Trainer
from cause.service.verifications import Verifications

REMEMBERED_S = 86_400.0
MOST_REMEMBERED = 100_000
RELOADED = (
    "close_every", "close_samples", "repair", "body", "connections", "requests", "streams", "slow", "rate", "erasures",
    "user_samples", "user_storage", "attempts", "hosts", "plain", "grace", "name",
)  # fmt: skip
"""Settings that `Service.reload` changes without a restart."""
NUMBER_BYTES = 24
"""Length of a probability as text."""


class Service:
    """A device with its queues, limits, tokens and events, as the routes use them.

    Parameters
    ----------
    folder
        The folder of the home.
    settings
        How the service runs.

    Raises
    ------
    HomeError
        If the home cannot be opened, for instance because another process has it open.
    """

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        self.settings, self.folder = settings, folder
        self.on_reload: list[Callable[[ServeSettings], None]] = []
        """Called with the new settings by `reload`."""
        config = read_config(Layout(folder).config)
        self.model = None if settings.calibration is None else EnergyModel.load(Path(settings.calibration))
        with ExitStack() as opened:
            # what is entered last is closed first: what uses a part is closed before the part
            self.device = Cause(folder, executor=_executor(settings))
            opened.callback(self.device.close)
            self.home: Home = home_of(self.device)
            # milliseconds: fewer events than that are published, so the ids of the next run are higher
            self.events, self.metrics = Events(int(1000 * self.home.clock())), Metrics()
            self.predictors = PredictorCache(self.device, settings.solving_s)
            self.quotas = Quotas(self.device, settings)
            self._lock = threading.Lock()
            self._bodies: dict[str, OrderedDict[str, tuple[float, bytes]]] = {}
            self._loop: asyncio.AbstractEventLoop | None = None
            self._overwriting: set[asyncio.Task[int]] = set()
            tidy = self.home.time.doubt() is None
            key = token_key(self.home)
            self.tokens = Tokens(self.home.layout.folder, key, HomeTime(self.home), tidy=tidy, set_aside=True)
            opened.callback(self.tokens.close)
            self._call_key = self.home.vault.commit(DEVICE_KEY, digest("calls of the service"))
            self.comparison = Comparison(self.device, self.model)
            opened.callback(self.comparison.close)
            self.verifications = Verifications(
                self.device, self.events, settings.verify_processes, lambda: _cluster(settings)
            )
            opened.callback(self.verifications.close)
            self.history = HistoryFile(self.home.layout.folder)
            opened.callback(self.history.close)
            self.expected_accuracy = ExpectedAccuracy(self.device, lambda: self.events.publish("accuracy.estimated"))
            opened.callback(self.expected_accuracy.close)
            self.journal = PublishingJournal(self.home, self.events, self._on_forget)
            self.device.journal = self.journal
            self.recorder = Recorder(self.device, self.history)
            opened.callback(self.recorder.stop)
            self.events.on_publish = self.recorder.on_event
            shape, dtype = config.settings.input_shape, config.settings.input_dtype
            self.reader = SampleReader(
                InputLayout.of(self.device.learner, self.device.classes, shape), settings.unpacked_bytes
            )
            self.converter = InputConverter.of(self.reader.layout, dtype or settings.samples)
            self.body_reader = BodyReader(settings.arriving_bytes, settings.unpackings)
            self._default_repair = "now" if config.settings.repair == "now" else "deadline"
            self.trainer = Trainer(self.device, self.events, settings, settings.repair or self._default_repair)
            opened.callback(lambda: self.trainer.stop(self.settings.grace_s))
            bytes_per_prediction = self.device.classes * (8 * self.device.controller.most + NUMBER_BYTES)
            self.batcher = PredictionBatcher(self.predictors, settings.waiting_bytes, bytes_per_prediction)
            opened.callback(self.batcher.close)
            self.erasures = Erasures(self.device, self.predictors)
            opened.callback(self.erasures.close)
            self.metrics.add(DeviceCollector(self))
            self.ready = False
            self._opened = opened.pop_all()

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start to train and to take requests; `loop` is the event loop that receives them."""
        self._loop = loop
        gc.collect()
        gc.freeze()  # imported objects stay: collections after an erasure then take less time
        self.trainer.start()
        self.recorder.start()
        self.ready = True

    @property
    def name(self) -> str:
        """The name of the device: the setting `name`, or that of the home's folder."""
        return self.settings.name or self.home.layout.folder.resolve().name

    def reload(self, settings: ServeSettings) -> list[str]:
        """Use other settings from now on. Requests, streams and trainings under way are not ended.

        Returns
        -------
        The names of changed settings that need a restart; the others are in use.
        """
        changed = [
            field.name
            for field in fields(ServeSettings)
            if getattr(settings, field.name) != getattr(self.settings, field.name)
        ]
        fixed = [name for name in changed if name not in RELOADED]
        self.settings = replace(settings, **{name: getattr(self.settings, name) for name in fixed})
        self.quotas.apply(self.settings)
        self.trainer.apply(self.settings, self.settings.repair or self._default_repair)
        for apply in self.on_reload:
            apply(self.settings)
        return fixed

    def begin_shutdown(self) -> None:
        """Report that the service is not ready, and end the event streams. A second call changes nothing."""
        self.ready = False
        self.events.close()

    def close(self) -> None:
        """Stop all threads and close the home. A training that takes too long is continued at the next start.

        Everything is closed even if closing a part fails; the error is raised at the end. A second call changes
        nothing.
        """
        with self._opened:
            self.begin_shutdown()

    def _on_forget(self) -> None:
        """After an erasure: drop decoded sub-models, estimates, running replays and digests of uploads."""
        self.predictors.purge()
        self.expected_accuracy.drop()
        self.verifications.restart()
        with self._lock:
            for kind in ("upload", "bulk"):
                self._bodies.pop(kind, None)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._overwrite_buffer)

    def _overwrite_buffer(self) -> None:
        """Overwrite the loop's receive buffer, which may still hold the end of an upload. Call it on the loop."""
        task = asyncio.get_running_loop().create_task(overwrite_receive_buffer())
        self._overwriting.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._overwriting.discard)

    def call_id(self, token: str, kind: str, key: str | None, body: bytes, *, bound: bool = False) -> str | None:
        """Return the id of a call with an idempotency key: the same key always gives the same id.

        Parameters
        ----------
        token
            The id of the client's token.
        kind
            What is called; the same key may be used once for each kind.
        key
            The idempotency key that the client sent, or None.
        body
            What the client sent; remembered for a day, as a digest.
        bound
            Let the id depend on the body too, so that another body is another call even after the first one is no
            longer remembered.

        Returns
        -------
        The id, or None without a key.

        Raises
        ------
        ProblemError
            422 if the key is not printable or too long, or if it came with another body before.
        """
        if key is None:
            return None
        if not 1 <= len(key) <= 128 or not key.isprintable():
            raise ProblemError(422, "an Idempotency-Key is a text of 1 to 128 printable characters")
        name = "\0".join((token, kind, key)).encode()
        id_ = hmac.digest(self._call_key, name, "sha256").hex()[:32]
        body_digest, now = hashlib.sha256(body).digest(), time.monotonic()
        with self._lock:
            bodies = self._bodies.setdefault(kind, OrderedDict())
            while bodies and now - next(iter(bodies.values()))[0] >= REMEMBERED_S:
                bodies.popitem(last=False)
            if bodies.get(id_, (now, body_digest))[1] != body_digest:
                raise ProblemError(422, "this Idempotency-Key came with another request before")
            bodies[id_] = (now, body_digest)
            bodies.move_to_end(id_)
            while len(bodies) > MOST_REMEMBERED:
                bodies.popitem(last=False)
        return hmac.digest(self._call_key, name + b"\0" + body_digest, "sha256").hex()[:32] if bound else id_

    def forget_body(self, kind: str, id_: str) -> None:
        """Delete the digest of a repeated body whose samples were forgotten: a 422 would confirm a guess of them."""
        with self._lock:
            self._bodies.get(kind, OrderedDict()).pop(id_, None)

    def part_id(self, call: str, user: str) -> str:
        """Return the id of one user's part of a call that uploads samples of several users."""
        return hmac.digest(self._call_key, b"\0".join((b"part", call.encode(), user.encode())), "sha256").hex()[:32]


def token_key(home: Home) -> bytes:
    """Return the key with which earlier versions coded the users of tokens."""
    return home.vault.commit(DEVICE_KEY, digest("tokens of the service"))


def tokens_of(folder: Path) -> Tokens:
    """Open the tokens of a home, which may be in use by a service.

    Raises
    ------
    HomeError
        If the folder is not a home, or its keys cannot be read.
    """
    layout = Layout(folder)
    if not layout.config.exists():
        raise not_a_home(folder)
    source = read_config(layout.config).source(folder)
    home = retried(partial(Home, folder, source, read_only=True))
    try:
        return Tokens(folder, token_key(home), HomeTime(home, ask_again=False), tidy=home.time.doubt() is None)
    finally:
        home.close()


def _executor(settings: ServeSettings) -> Executor:
    """Return where the service trains: in processes of this machine, or on a cluster."""
    return _cluster(settings, settings.ray_port) or Processes(settings.workers)


def _cluster(settings: ServeSettings, port: int = 0) -> WorkerPool | None:
    """Return an executor on the cluster of the settings; None without one."""
    if settings.ray is None:
        return None
    from cause.executors.cluster import RayExecutor

    needs = None if settings.per_worker is None else parse_per_worker(settings.per_worker)
    return RayExecutor(
        settings.ray,
        per_worker=needs,
        lease=settings.lease_s,
        port=port,
        other_environments=settings.other_environments or REFUSE,
    )
