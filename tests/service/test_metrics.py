"""Metrics as Prometheus reads them, and the alerts that are made of them."""

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.services import inputs
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "alerts.yml"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is in Debian's package prometheus"
)


def read(device):
    """Metrics by name, and values by name and labels."""
    families = {
        family.name: family for family in text_string_to_metric_families(device.get("/metrics", "auditor").text)
    }
    samples = {(s.name, *sorted(s.labels.values())): s.value for family in families.values() for s in family.samples}
    return families, samples


def test_every_metric_has_a_help_and_what_only_grows_is_a_counter(running):
    running.learn(ann=9, bob=9)
    running.post("/v1/users/ann/erasures", body={})
    families, _ = read(running)
    assert all(family.documentation for family in families.values())
    kinds = {name: family.type for name, family in families.items()}
    assert kinds["cause_receipts"] == kinds["cause_retrained_samples"] == kinds["cause_requests"] == "counter"
    assert kinds["cause_request_seconds"] == "histogram"
    # a repair may sign another receipt in between
    wait_until(lambda: read(running)[1]["cause_receipts_total",] == running.service.home.receipts.size)
    for name in (
        "cause_shards",
        "cause_voting_shards",
        "cause_overdue_requests",
        "cause_repair_samples",
        "process_cpu_seconds",
    ):
        assert name in kinds, name


def test_accuracy_and_its_voters_are_those_of_the_newest_evaluation(running):
    running.learn(ann=9, bob=9)
    body = {"samples": [{"x": row, "y": 0} for row in inputs(8)]}
    made = running.post("/v1/evaluations", body=body).json()
    _, samples = read(running)
    assert samples["cause_accuracy_ratio",] == made["accuracy"]
    assert samples["cause_accuracy_voters",] == made["voters"]


def test_large_numbers_are_exact(running):
    running.service.metrics._requests.labels("GET", "/large", "200").inc(123_456_789_012)
    _, samples = read(running)
    assert samples["cause_requests_total", "/large", "200", "GET"] == 123_456_789_012


def test_a_refusal_is_counted_at_the_route_that_was_asked_for(running):
    def refused(route, status):
        return read(running)[1].get(("cause_requests_total", *sorted((route, str(status), "GET"))), 0)

    before = refused("/v1/users/{user}", 401)
    running.http.get("/v1/users/someone")
    assert refused("/v1/users/{user}", 401) == before + 1
    before = refused("unknown", 401)
    running.http.get("/v1/nothing")
    assert refused("unknown", 401) == before + 1
    assert "someone" not in running.get("/metrics").text
    running.http.request("BREW", "/v1/status")
    assert "BREW" not in running.get("/metrics").text


def test_streams_are_counted_apart_from_latencies(running):
    url, headers = f"{running.http.base_url}/v1/events", running.headers("auditor")
    with httpx.stream("GET", url, headers=headers, trust_env=False) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: hello"
        wait_until(lambda: read(running)[1]["cause_event_streams",] == 1)
        lines.close()  # type: ignore[attr-defined]
    running.service.events.publish("upload.staged", samples=1)
    wait_until(lambda: read(running)[1]["cause_event_streams",] == 0)
    _, samples = read(running)
    assert ("cause_requests_total", "/v1/events", "200", "GET") in samples
    assert not [name for name in samples if name[0] == "cause_request_seconds_count" and "/v1/events" in name]


def test_alerts_name_metrics_that_there_are(running):
    running.learn(ann=9)
    running.post("/v1/users/ann/erasures", body={"rounds": [1], "count": 1})
    _, samples = read(running)
    there = {name for name, *_ in samples} | {"cause_storage_budget_bytes", "cause_next_deadline_seconds"}
    named = set(re.findall(r"\bcause_[a-z_]+", ALERTS.read_text()))
    assert named
    assert named <= there, named - there


@needs_promtool
def test_promtool_finds_nothing_to_lint(running):
    running.learn(ann=9, bob=9)
    text = running.get("/metrics", "auditor").text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_promtool
def test_promtool_takes_the_alerts():
    done = subprocess.run(["promtool", "check", "rules", ALERTS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
