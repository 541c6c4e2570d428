"""A cluster of several machines must be protected; what cannot work is refused in one line."""

import sys

import pytest

from cause.cli.homes import executor_of
from cause.errors import InputError
from cause.executors.cluster.connection import require_protection
from cause.executors.cluster.executor import RayExecutor
from cause.executors.cluster.resources import parse_per_worker
from cause.service.settings import ServeSettings, read_settings

ELSEWHERE = "192.0.2.7"  # an address for documentation: no machine has it


def test_a_cluster_on_this_machine_needs_no_protection(monkeypatch):
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    require_protection("auto", ["127.0.0.1"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "TLS is off"),
        ({"RAY_AUTH_MODE": "token"}, "TLS is off"),
        ({"RAY_USE_TLS": "1"}, "without a token"),
        ({"RAY_USE_TLS": "1", "RAY_AUTH_MODE": "disabled"}, "without a token"),
    ],
)
def test_a_cluster_of_several_machines_needs_tls_and_a_token(monkeypatch, variables, message):
    for name in ("RAY_USE_TLS", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message):
        require_protection("auto", ["127.0.0.1", ELSEWHERE])


def test_a_cluster_that_takes_commands_without_a_token_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr("cause.executors.cluster.connection.accepts_strangers", lambda address: True)
    with pytest.raises(InputError, match="without a token"):
        require_protection("auto", [ELSEWHERE])
    monkeypatch.setattr("cause.executors.cluster.connection.accepts_strangers", lambda address: False)
    require_protection("auto", [ELSEWHERE])


def test_a_cluster_that_refused_is_not_tried_again_for_every_worker(monkeypatch):
    tried = []
    monkeypatch.setenv("RAY_USE_TLS", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr("cause.executors.cluster.connection._refusing", set())
    monkeypatch.setattr("cause.executors.cluster.connection._refuses", lambda address: tried.append(address) or True)
    for _ in range(3):
        require_protection("one", [ELSEWHERE])
    require_protection("other", [ELSEWHERE])
    assert tried == ["one", "other"]
    require_protection("one", [ELSEWHERE], anew=True)  # the device joins again: it may be another cluster
    assert tried == ["one", "other", "one"]


@pytest.mark.parametrize(
    "text", ["", "cpus", "cpus=", "cpus=-1", "disks=1", "cpus=1;gpus=1", "memory=1000000000000000", "cpus=nan"]
)
def test_what_a_worker_needs_is_checked(text):
    with pytest.raises(InputError):
        parse_per_worker(text)


@pytest.mark.parametrize("lease", [0, 0.5, -1, 1e9, float("nan")])
def test_a_lease_out_of_range_is_refused_before_anything_is_joined(lease):
    with pytest.raises(InputError, match="lease"):
        RayExecutor(lease=lease)


def test_a_command_without_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'cause\[ray\]'"):
        RayExecutor()


def test_what_a_worker_needs_makes_no_sense_without_a_cluster():
    with pytest.raises(InputError, match="--ray"):
        executor_of(None, "cpus=1")
    with pytest.raises(InputError, match="ray"):
        ServeSettings(per_worker="cpus=1")


@pytest.mark.parametrize("wrong", [{"lease": "0.5s"}, {"lease": "1h"}, {"lease": "5 apples"}, {"ray_port": 65_536}])
def test_settings_of_a_service_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        ServeSettings(ray="auto", **wrong)


def test_a_service_takes_its_cluster_from_a_file_and_from_the_environment(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text('[serve]\nray = "10.0.0.1:6379"\nper_worker = "cpus=1,gpus=0.1"\nlease = "8s"\n')
    settings = read_settings(file, {"CAUSE_SERVE_LEASE": "12s", "CAUSE_SERVE_RAY_PORT": "7000"})
    assert (settings.ray, settings.per_worker) == ("10.0.0.1:6379", "cpus=1,gpus=0.1")
    assert (settings.lease_s, settings.ray_port) == (12.0, 7000)
