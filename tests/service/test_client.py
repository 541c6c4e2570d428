"""Both clients: waiting, sending again with the same key, and that one has all that the other has."""

import asyncio
import inspect

import httpx
import pytest

from cause.client import AsyncClient, Client, ServiceError
from tests.device.homes import samples
from tests.service.services import Running

X, Y = samples("zoe", 1, 12)


class Busy:
    """A service that is busy for the first calls; the requests that it got."""

    def __init__(self, status: int, pause: str, times: int) -> None:
        self.status, self.pause, self.times, self.seen = status, pause, times, []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append((request.method, request.url.path, request.headers.get("Idempotency-Key"), request.content))
        if len(self.seen) <= self.times:
            body = {"type": "urn:cause:problem:unavailable", "detail": "busy"}
            return httpx.Response(self.status, json=body, headers={"Retry-After": self.pause} if self.pause else {})
        fields = {"id": "0" * 32, "state": "staged", "samples": 12, "round": None, "handles": []}
        return httpx.Response(201, json=fields)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("key", [None, "mine"])
def test_a_busy_service_is_asked_again_with_the_same_key(status, key):
    busy = Busy(status, "0", 2)
    with Client("http://device", "t", transport=httpx.MockTransport(busy)) as client:
        assert client.upload("zoe", X, Y, key=key).samples == 12
    assert len(busy.seen) == 3
    assert len(set(busy.seen)) == 1, "the same call, byte for byte"
    assert busy.seen[0][2] == key or (key is None and len(busy.seen[0][2]) == 32)


@pytest.mark.parametrize(("pause", "retries", "sent"), [("0", 1, 2), ("0", 0, 1), ("3600", 3, 1)])
def test_it_gives_up_after_some_attempts_and_before_a_long_pause(pause, retries, sent):
    busy = Busy(503, pause, 99)
    with (
        Client("http://device", "t", retries=retries, transport=httpx.MockTransport(busy)) as client,
        pytest.raises(ServiceError, match="503"),
    ):
        client.upload("zoe", X, Y)
    assert len(busy.seen) == sent


def test_an_error_of_the_caller_is_not_sent_again():
    busy = Busy(409, "0", 99)
    with Client("http://d", "t", transport=httpx.MockTransport(busy)) as client, pytest.raises(ServiceError):
        client.close_round()
    assert len(busy.seen) == 1


def test_both_clients_have_the_same_methods_with_the_same_arguments():
    def methods(cls):
        named = {name: method for name, method in vars(cls).items() if not name.startswith("_") and name != "close"}
        return {name: list(inspect.signature(method).parameters.values()) for name, method in named.items()}

    assert methods(Client) == methods(AsyncClient)


def test_waiting_for_rounds_repairs_and_verifications(tmp_path):
    with (
        Running(tmp_path / "home", repair="never") as device,
        Client(str(device.http.base_url), device.secrets["operator"]) as client,
    ):
        client.upload("zoe", X, Y)
        assert client.close_round(wait=True).state == "trained"
        assert client.predict(X).voters
        request = client.erase("zoe", rounds=[1], count=3)
        assert client.status()["repair"]["waiting"]
        assert client.repair(wait=True) == []
        assert client.request(request.id).state == "repaired"
        started = client.verify(request.receipts[0], wait=False)
        assert started.state == "running"
        assert client.verify(wait=True).state == "holds"
        assert client.verification(started.id).state == "holds"


def test_the_asynchronous_client_does_the_same(tmp_path):
    async def use(device):
        async with AsyncClient(str(device.http.base_url), device.secrets["operator"]) as client:
            first = anext(events := client.events())
            assert (await first).kind == "hello"
            uploads = await asyncio.gather(*(client.upload(f"u{at}", *samples(f"u{at}", 1, 8)) for at in range(4)))
            assert sum(upload.samples for upload in uploads) == 32
            assert (await client.close_round(wait=True)).state == "trained"
            assert len((await client.predict(X)).labels) == 12
            request = await client.erase("u0", handles=uploads[0].handles[:2])
            assert (await client.request(request.id)).samples == 2
            assert [each.id async for each in client.requests()] == [request.id]
            assert len([held async for held in client.samples("u0")]) == 6
            await client.repair(wait=True)
            assert (await client.verify()).state == "holds"
            assert (await client.receipts(request.id))[0].number == (await client.log()).size - 2
            assert (await client.user("u0"))["samples"] == 6
            with pytest.raises(ServiceError, match="404"):
                await client.round(99)
            await events.aclose()

    with Running(tmp_path / "home", repair="never") as device:
        asyncio.run(use(device))
