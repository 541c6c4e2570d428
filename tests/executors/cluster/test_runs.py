"""Runs of the laboratory on three Ray nodes of this machine: the same numbers, and resumed as on one machine."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from cause.cli import main
from cause.errors import InputError
from cause.lab.reproduce import kinds, on_cluster
from cause.lab.reproduce.cell import Cell
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import reproduce
from cause.lab.reproduce.size import SIZES
from tests.executors.cluster.nodes import local_cluster
from tests.executors.cluster.ray_needed import MARKS, let_nodes_import_tests
from tests.executors.cluster.same_numbers import MEASURED_KINDS, compare
from tests.lab.reproduce.tiny import TINY

pytestmark = MARKS
SMALL = replace(SIZES["quick"], seeds=2, workload=500)
POLICIES = [FIGURES["policies"]]
ONLY = {"slots": ["8"]}


@pytest.fixture(scope="module")
def address():
    let_nodes_import_tests()
    with local_cluster() as found:
        yield found


def results(folder, name):
    return json.loads((folder / f"{name}.json").read_text())["result"]


def test_simulations_give_the_numbers_of_one_machine_and_go_on_where_they_were_stopped(address, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, number, total):
        if number == 2:
            raise Stop

    place = Resources(cluster=on_cluster.Cluster(address))
    reproduce(POLICIES, SMALL, Resources(), tmp_path / "here", only=ONLY)
    with pytest.raises(Stop):
        reproduce(POLICIES, SMALL, place, tmp_path / "there", only=ONLY, on_done=stop)
    report = reproduce(POLICIES, SMALL, place, tmp_path / "there", only=ONLY)
    assert report.found >= 2
    assert report.ran > 0
    here, there = results(tmp_path / "here", "policies"), results(tmp_path / "there", "policies")
    assert here["summary"] == there["summary"]
    assert {source["machine"].get("ray_nodes") for source in there["sources"]} == {3}


def test_commands_simulate_on_a_cluster(address):
    def run(*arguments):
        command = [sys.executable, "-m", "cause", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    for command in (
        ["compare", "--seeds", "2", "--samples", "500", "--users", "10", "--rounds", "3"],
        ["balance", "--seeds", "2", "--users", "32"],
    ):
        assert run(*command, "--ray", address) == run(*command)


def test_a_training_gives_the_numbers_of_one_machine(address, tmp_path):
    pytest.importorskip("torch_pruning")
    (cell, *_) = [
        cell for cell in FIGURES["controller"].cells(TINY) if cell.kind == "train" and cell.settings["shards"] == 2
    ]
    failing = Cell("train", {**cell.settings, "system": "nobody"})
    cluster, done = on_cluster.Cluster(address), []
    with pytest.raises(InputError, match="nobody"):
        done.extend(cluster.run([failing, cell], Resources(), None))  # pragma: no branch
    (there,) = cluster.run([cell], Resources(), None)
    from cause.lab.reproduce.runner import run_cell

    here = run_cell(cell, Resources())
    for name in ("accuracy", "accuracy_of_heads", "samples_visited", "head_bytes", "replayed", "environment", "rsn"):
        assert there.result[name] == here.result[name]


KINDS = {
    "sc-function": {},
    "policies": ONLY,
    "balance": {"shards": ["4"]},
    "policy-map": {"shards": ["4"], "ages": ["uniform"], "system": ["cause"]},
    "pruning": {"rate": ["0", "70"]},
    "epochs": {"system": ["cause", "sisa"]},
    "controller": {"system": ["cause"], "shards": ["2", "4"]},
}
"""Figures with every kind of run that goes to a cluster, and as much of each as is needed."""


def test_every_kind_of_run_gives_the_numbers_of_one_machine(address, tmp_path):
    pytest.importorskip("torch_pruning")
    here, there = tmp_path / "here", tmp_path / "there"
    for name, only in KINDS.items():
        for place, folder in ((Resources(), here), (Resources(cluster=on_cluster.Cluster(address)), there)):
            reproduce([FIGURES[name]], TINY, place, folder, only=only)
    comparison = compare(here, there)
    assert comparison.differences == []
    assert comparison.nodes == {3}
    assert set(comparison.runs) == set(kinds.TRAINS) - MEASURED_KINDS
    changed = json.loads((there / "sc-function.json").read_text())
    changed["result"]["cells"][0]["result"]["active"][0] += 1
    (there / "sc-function.json").write_text(json.dumps(changed))
    (there / "cells").rename(there / "kept")
    assert len(compare(here, there).differences) == 1, "a number that differs is seen"


def test_a_node_of_other_versions_is_named(address, monkeypatch):
    monkeypatch.setattr(on_cluster, "__version__", "9.9")
    with pytest.raises(InputError, match=r"another environment: .*cause 9\.9 here"):
        list(on_cluster.Cluster(address).run([Cell("control", {"shards": 4})], Resources(), None))


def test_a_trace_stays_on_this_machine(address, tmp_path, capsys):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"round": 1, "add": {"user": "u7", "count": 31}}\n')
    with pytest.raises(SystemExit):
        main(["compare", "cause", "--trace", str(trace), "--ray", address])
    assert "names users" in capsys.readouterr().err
