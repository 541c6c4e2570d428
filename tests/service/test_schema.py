"""The schema is what the service does: a short fuzz of all of it, the client's shapes, and the contract page."""

import re
import typing
from dataclasses import fields
from pathlib import Path

import pytest

from cause.client import Client, shapes
from cause.service import schemas
from tests.device.homes import samples
from tests.service.fuzz import fuzz, prepare

ROOT = Path(__file__).parents[2]


def test_a_short_fuzz_of_every_route_finds_nothing(running, thorough):
    prepare(running)
    phases = ("examples", "coverage", "fuzzing") if thorough else ("examples", "fuzzing")
    code, body = fuzz(f"http://127.0.0.1:{running.port}", running.secrets["operator"], 1, *phases)
    assert code == 0, body
    assert 'status="5' not in running.get("/metrics").text


@pytest.mark.parametrize(
    "name", ["Upload", "Request", "Predictions", "Round", "Bundle", "Verification", "Log", "Evaluation"]
)
def test_the_clients_shapes_are_those_of_the_schema(running, name):
    body = running.http.get("/openapi.json").json()["components"]["schemas"][name]["properties"]
    mine, theirs = getattr(shapes, name), getattr(schemas, name)
    assert {field.name for field in fields(mine)} == set(body)
    hints = typing.get_type_hints(mine)
    for field, kind in theirs.model_fields.items():
        optional = type(None) in typing.get_args(kind.annotation)
        assert (type(None) in typing.get_args(hints[field])) == optional, field


def test_every_route_of_the_contract_is_there_and_no_other(running):
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    body = set(re.findall(r"`(GET|POST) (/(?:v1|metrics|healthz|readyz|openapi)[^`? ]*)", page))
    there = {
        (method.upper(), path)
        for path, methods in running.http.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    assert body == there | {("GET", "/openapi.json")}


def test_every_event_of_the_contract_is_published_somewhere():
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z_]+\.[a-z]+)`", page, re.MULTILINE))
    sources = "".join(path.read_text() for path in (ROOT / "src/cause/service").rglob("*.py"))
    assert documented == set(re.findall(r"publish\(\s*\"([a-z_]+\.[a-z]+)\"", sources))


def test_the_client_does_what_the_service_does(running):
    with Client(str(running.http.base_url), running.secrets["operator"]) as client:
        x, y = samples("zoe", 1, 12)
        assert client.upload("zoe", x, y, key="k1").samples == 12
        number = client.close_round(key="k2").round
        running.settled()
        assert client.round(number).state == "trained"
        assert len(client.predict(x, probabilities=True).probabilities) == 12
        assert client.evaluate(x, y).samples == 12
        assert client.plan("zoe")["samples"] == 12
        asked = client.erase("zoe", rounds=[number], count=2, key="k3")
        assert asked.in_effect
        assert client.request(asked.id).samples == 2
        assert asked.id in [each.id for each in client.requests()]
        assert client.receipts(asked.id)[0].number in client.request(asked.id).receipts
        assert client.user("zoe")["samples"] == 10
        assert client.log().size >= 1
        assert client.status()["round"] == number
        assert client.shards()


def test_operations_have_speaking_names_and_bodies_have_named_schemas(running):
    schema = running.http.get("/openapi.json").json()
    operations = [operation for methods in schema["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) and "v1" not in name for name in names)
    assert {"erase", "plan_erasure", "close_round", "predict"} <= set(names)
    assert schema["servers"][0]["url"] == "/"
    body = schema["paths"]["/v1/users/{user}/erasures"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/Erasure"}
    assert schema["components"]["schemas"]["Erasure"]["examples"]
