"""The device as metrics: read under its lock whenever Prometheus asks."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from cause.common.version import __version__
from cause.device.device import ENDLESS
from cause.device.status import estimated, waiting
from cause.service.metrics import counter, gauge

if TYPE_CHECKING:
    from cause.service.service import Service


class DeviceCollector(Collector):
    """Reads the device of a service."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names are known once the device is read."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the device as it is now."""
        yield InfoMetricFamily("cause_build", "The version of cause.", value={"version": __version__})
        yield from self._samples()
        yield from self._shards()
        yield from self._sub_models()
        yield from self._requests()
        yield from self._repair()
        yield from self._evaluation()

    def _samples(self) -> Iterator[Metric]:
        device, home = self._service.device, self._service.home
        with device.lock:
            uploads = home.inbox.uploads()
            retained = sum(device.ledger.lineage(shard).samples for shard in device.ledger.shards())
            quarantined = device.ledger.quarantined()
        yield from gauge("round", "The newest round.", device.ledger.round)
        yield from gauge("retained_samples", "Samples of rounds that are held.", retained)
        yield from gauge("staged_samples", "Samples that wait for a round.", sum(upload.samples for upload in uploads))
        yield from gauge("quarantined_uploads", "Uploads in quarantine.", len({piece.upload for piece in quarantined}))
        yield from gauge("quarantined_samples", "Samples in quarantine.", sum(piece.samples for piece in quarantined))
        yield from gauge("storage_bytes", "Disk space of samples, staged ones included.", home.stored_bytes)
        yield from gauge("storage_budget_bytes", "The limit of cause_storage_bytes.", home.storage_bytes)

    def _shards(self) -> Iterator[Metric]:
        device = self._service.device
        with device.lock:
            shards = device.ledger.shards()
            voting, behind = len(device.heads()), len(device.waiting())
            silent = sum(device.memory.head(shard) is None for shard in shards)
            failing = len(device.failed_shards)
        yield from gauge("shards", "Shards that hold samples.", len(shards))
        yield from gauge("voting_shards", "Shards that vote.", voting)
        yield from gauge("waiting_shards", "Shards that wait for a training.", behind)
        yield from gauge("degraded_shards", "Shards that hold samples and do not vote.", silent)
        yield from gauge("failing_shards", "Shards whose last training failed.", failing)

    def _sub_models(self) -> Iterator[Metric]:
        device = self._service.device
        with device.lock:
            stored, used, budget = len(device.memory), device.memory.used_bytes, device.memory.budget_bytes
            slots = device.memory.slots
        endless = slots >= ENDLESS
        yield from gauge("sub_models", "Stored sub-models.", stored)
        yield from gauge("memory_bytes", "Memory of sub-models.", used)
        yield from gauge("memory_budget_bytes", "The limit of cause_memory_bytes.", None if endless else budget)

    def _requests(self) -> Iterator[Metric]:
        home, trainer = self._service.home, self._service.trainer
        now, deadlines = home.clock(), home.queries.open_deadlines()
        yield from gauge("open_requests", "Erasures that are not repaired.", len(deadlines))
        overdue = sum(deadline < now for deadline in deadlines)
        yield from gauge("overdue_requests", "Erasures past their deadline that are not repaired.", overdue)
        yield from gauge(
            "next_deadline_seconds",
            "Seconds until the next deadline of a repair; below 0 if it is past. Missing if no erasure is open.",
            min(deadlines) - now if deadlines else None,
        )
        retrained, receipts = home.queries.retrained_total(), home.receipts.size
        yield from counter("retrained_samples", "Samples that were trained again after erasures.", retrained)
        yield from counter("receipts", "Entries of the log of receipts.", receipts)
        yield from gauge("training", "1 while a training runs.", 0 if trainer.progress is None else 1)
        yield from gauge("training_failing", "1 if training fails.", 0 if trainer.problem is None else 1)

    def _repair(self) -> Iterator[Metric]:
        device = self._service.device
        with device.lock:
            segments = waiting(device)
        rsn = sum(segment.samples for segment in segments if segment.again)
        samples = sum(segment.samples for segment in segments)
        cost = estimated(len(segments), samples, rsn, self._service.model)
        yield from gauge("repair_samples", "Samples that the waiting trainings take.", samples)
        yield from gauge("repair_seconds", "Estimated seconds of the waiting trainings.", cost.seconds)
        yield from gauge("repair_joules", "Estimated energy of the waiting trainings.", cost.joules)

    def _evaluation(self) -> Iterator[Metric]:
        rows = self._service.home.queries.evaluations(None, 1)
        if rows:
            fields = json.loads(rows[0].text)
            yield from gauge("accuracy_ratio", "Accuracy of the newest evaluation, from 0 to 1.", fields["accuracy"])
            yield from gauge("accuracy_voters", "Shards that voted in the newest evaluation.", fields["voters"])
            yield from gauge("accuracy_timestamp_seconds", "When the newest evaluation was made.", rows[0].at)
