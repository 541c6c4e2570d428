"""Each alert of deploy/alerts.yml on made-up series, by `promtool test rules`: it fires when it must, and only then."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is in Debian's package prometheus")
ERRORS = 'cause_requests_total{instance="d",route="/v1/status",status="500"}'
BUSY = 'cause_requests_total{instance="d",route="/v1/predictions",status="503"}'
CASES = {
    # alert: series that make it fire at a minute, with its value; series that do not
    "CauseDown": ({'up{job="cause",instance="d"}': "0x60"}, 10, "0", {'up{job="cause",instance="d"}': "1x60"}),
    "CauseErasureOverdue": (
        {'cause_overdue_requests{instance="d"}': "2x60"}, 1, "2", {'cause_overdue_requests{instance="d"}': "0x60"},
    ),
    "CauseErasureDueSoon": (
        {'cause_next_deadline_seconds{instance="d"}': "86000x60"}, 1, "8.6e+04",
        {'cause_next_deadline_seconds{instance="d"}': "90000x60"},
    ),
    "CauseShardsDoNotVote": (
        {'cause_degraded_shards{instance="d"}': "3x90"}, 70, "3", {'cause_degraded_shards{instance="d"}': "3x30 0x60"},
    ),
    "CauseTrainingFails": (
        {'cause_training_failing{instance="d"}': "0x60", 'cause_failing_shards{instance="d"}': "1x60"}, 20, "1",
        {'cause_training_failing{instance="d"}': "0x60", 'cause_failing_shards{instance="d"}': "0x60"},
    ),
    "CauseQuarantineGrows": (
        {'cause_quarantined_uploads{instance="d"}': "4x30 5x60"}, 40, "",
        {'cause_quarantined_uploads{instance="d"}': "4x90"},
    ),
    "CauseStorageNearlyFull": (
        {'cause_storage_bytes{instance="d"}': "95x60", 'cause_storage_budget_bytes{instance="d"}': "100x60"}, 20,
        "0.95",
        {'cause_storage_bytes{instance="d"}': "95x60"},
    ),
    "CauseRequestsRefused": ({BUSY: "0+120x60"}, 30, "2", {BUSY: "0+30x60"}),
    "CauseServerErrors": ({ERRORS: "3x20 4x60"}, 25, "", {ERRORS: "4x60"}),
    # a series begins with its first error: increase() alone sees no growth in it
    "CauseServerErrors of a new route": ({ERRORS: "_x30 1x60"}, 35, "", {ERRORS: "1x60"}),
}  # fmt: skip


def rules() -> dict[str, dict]:
    return {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}


def promtool(tmp_path: Path, series: dict[str, str], minute: int, name: str, expected: list[dict]) -> None:
    """Fail if the alert is not as expected at that minute."""
    test = {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_when_it_must_and_only_then(case, tmp_path):
    firing, minute, value, quiet = CASES[case]
    name = case.split()[0]
    rule = rules()[name]
    series = next(iter(firing))
    labels = {"instance": "d", **rule["labels"], **({"job": "cause"} if "job=" in series else {})}
    filled = {
        key: text.replace("{{ $labels.instance }}", "d").replace("{{ $value }}", value)
        for key, text in rule["annotations"].items()
    }
    promtool(tmp_path, firing, minute, name, [{"exp_labels": labels, "exp_annotations": filled}])
    promtool(tmp_path, quiet, minute, name, [])


def test_every_alert_has_a_case():
    assert set(rules()) == {case.split()[0] for case in CASES}
