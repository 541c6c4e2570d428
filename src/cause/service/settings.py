"""Settings of the service: defaults, then a TOML file, the environment (`CAUSE_SERVE_…`) and options; the last wins."""

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cause.common.registry import check_choice, nearest
from cause.common.units import parse_bytes
from cause.device.schedule import TIMES, parse_duration
from cause.errors import InputError
from cause.executors.cluster.lease import LEAST_S, MOST_S
from cause.executors.cluster.other_environments import OTHER_ENVIRONMENTS
from cause.executors.cluster.resources import parse_per_worker

PREFIX = "CAUSE_SERVE_"
REPAIRS = (*TIMES, "never")
LARGEST_BYTES = 1 << 20  # of a TOML file
SAMPLES = ("float32", "uint8")
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?")
_TRUE_FALSE = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a service, as in the table `[serve]` of a TOML file.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> ServeSettings(close_every="1h").close_every_s, ServeSettings().body_bytes
    (3600.0, 33554432)
    """

    name: str | None = None
    """What the device is called in the status and on the page; None: as the folder of the home."""
    host: str = "127.0.0.1"
    port: int = 8470
    plain: bool = False
    """Other machines may use plain HTTP, since a proxy or a tunnel encrypts it: no warning is logged."""
    hosts: str | None = None
    """Names and addresses that requests may give as their Host, separated by commas; None: any. Names of this machine
    itself (localhost, 127.0.0.1, [::1]) always may."""
    workers: int = 1
    """Worker processes that train."""
    ray: str | None = None
    """The address of a Ray cluster that trains instead of worker processes of this machine: HOST:PORT, or auto."""
    per_worker: str | None = None
    """What each worker of the cluster needs: cpus=1,gpus=0.1,memory=2000000000; None: one CPU."""
    lease: str = "5s"
    """How long a worker of the cluster may live without this service, from 1s to 600s: an erasure waits as long for one
    that cannot be reached."""
    other_environments: str | None = None
    """What is done with nodes of the cluster whose environment is not this machine's: "refuse" (None: the same), or
    "whole-shards": each shard is trained in one environment for ever."""
    ray_port: int = 0
    """The port on which the workers that train reach this service; 0: any free one. Verifications take a free one."""
    close_every: str | None = None
    """Close a round when so much time has passed and something is staged: "1h"."""
    close_samples: int | None = None
    """Close a round when so many samples are staged."""
    repair: str | None = None
    """When shards are repaired after an erasure: now, idle, deadline or never; None: as the home is configured."""
    samples: str = "float32"
    """The dtype in which uploads are kept: float32, or uint8 for pictures, which takes a quarter of the space."""
    body: str = "32MB"
    """The largest request."""
    unpacked: str = "64MB"
    """The most that its samples may take in memory."""
    arriving: str = "64MB"
    """The most that the bodies of all requests may take while they arrive and until they are unpacked."""
    unpackings: int = 1
    """Bodies that are unpacked at once."""
    waiting: str = "64MB"
    """The most that all inputs that wait for their prediction may take, with their answers."""
    connections: int = 256
    """Connections that may be open at once."""
    requests: int = 160
    """Requests that may be under way at once; one token may have three quarters of them."""
    streams: int = 32
    """Event streams that may be open at once; one token may have a quarter of them."""
    slow: str = "30s"
    """How long headers and bodies may take to arrive, and responses to be read; large bodies have more time."""
    rate: float = 1000.0
    """Requests a second for each token; the burst is twice that."""
    erasures: int = 60
    """Erasures an hour for each user's token, in one burst or not: each leaves a receipt that is kept for ever."""
    user_samples: int | None = None
    """The most samples that one user may hold when the user's own token uploads; None: as many as fit."""
    user_storage: str = "25%"
    """The most that one user's samples may take on the disk, likewise: a size, or a share of the home's `storage` (of
    the whole disk where the home has no such limit)."""
    attempts: float = 5.0
    """Failed attempts a second for each address."""
    tls_cert: str | None = None
    tls_key: str | None = None
    calibration: str | None = None
    """A file of `cause calibrate --out`: what a sample costs on this machine."""
    grace: str = "20s"
    """How long a stop waits for the end of a segment; an unfinished one is trained after the next start."""
    verify_processes: int = 1
    """Processes that replay for a verification."""
    solving: str = "5s"
    """How long a prediction waits while an additive head is solved anew; then it is refused, with Retry-After."""

    def __post_init__(self) -> None:
        if self.name is not None and not (1 <= len(self.name) <= 80 and self.name.isprintable()):
            raise InputError(f"a name is a line of 1 to 80 characters, not {self.name[:80]!r}")
        if not 0 <= self.port < 65_536:
            raise InputError(f"a port is a number from 0 to 65535, not {self.port}")
        if self.workers < 1:
            raise InputError(f"the service needs at least 1 worker process, not {self.workers}")
        if self.per_worker is not None:
            parse_per_worker(self.per_worker)
            if self.ray is None:
                raise InputError("per_worker says what a worker of a cluster needs: name the cluster with ray")
        if self.other_environments is not None:
            check_choice("other_environments", self.other_environments, OTHER_ENVIRONMENTS)
            if self.ray is None:
                raise InputError("other_environments is about nodes of a cluster: name the cluster with ray")
        if not LEAST_S <= self.lease_s <= MOST_S:
            raise InputError(f"the lease of a worker must be from {LEAST_S:g} to {MOST_S:g} seconds, not {self.lease}")
        if not 0 <= self.ray_port < 65_536:
            raise InputError(f"ray_port is a number from 0 to 65535, not {self.ray_port}")
        for host in (self.hosts or "").split(","):
            if host.strip() and not _HOST.fullmatch(host.strip()):
                raise InputError(f"hosts are names and addresses with commas between them, not {host.strip()!r}")
        if self.repair is not None:
            check_choice("repair", self.repair, REPAIRS)
        check_choice("samples", self.samples, SAMPLES)
        if self.close_samples is not None and self.close_samples < 1:
            raise InputError(f"a round is closed at 1 staged sample or more, not at {self.close_samples}")
        if not (self.rate > 0 and self.attempts > 0):
            raise InputError(f"rates are above 0, not {self.rate} and {self.attempts}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("TLS needs both a certificate and its key: tls_cert and tls_key")
        for name in ("unpackings", "connections", "requests", "streams", "erasures"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        for text in (self.close_every, self.grace, self.slow, self.solving):
            if text is not None:
                parse_duration(text)
        for size in (self.body, self.unpacked, self.arriving, self.waiting):
            parse_bytes(size)
        if self.user_samples is not None and self.user_samples < 1:
            raise InputError(f"user_samples must be at least 1, not {self.user_samples}")
        share_of(self.user_storage, 0)

    @property
    def allowed_hosts(self) -> frozenset[str] | None:
        """`hosts` as a set, in lower case and without ports; None: any."""
        if self.hosts is None:
            return None
        return frozenset(host_name(host.strip()) for host in self.hosts.split(",") if host.strip()) | LOCAL_HOSTS

    @property
    def exposed(self) -> bool:
        """Whether tokens and samples can be read on the network: other machines are served without TLS."""
        return self.tls_cert is None and not self.plain and not is_loopback(self.host)

    @property
    def lease_s(self) -> float:
        """`lease` in seconds."""
        return parse_duration(self.lease)

    @property
    def close_every_s(self) -> float | None:
        """`close_every` in seconds."""
        return None if self.close_every is None else parse_duration(self.close_every)

    @property
    def solving_s(self) -> float:
        """`solving` in seconds."""
        return parse_duration(self.solving)

    @property
    def grace_s(self) -> float:
        """`grace` in seconds."""
        return parse_duration(self.grace)

    @property
    def slow_s(self) -> float:
        """`slow` in seconds."""
        return parse_duration(self.slow)

    @property
    def arriving_bytes(self) -> int:
        """`arriving` in bytes."""
        return parse_bytes(self.arriving)

    @property
    def waiting_bytes(self) -> int:
        """`waiting` in bytes."""
        return parse_bytes(self.waiting)

    @property
    def requests_per_token(self) -> int:
        """Requests that one token may have under way."""
        return max(1, self.requests * 3 // 4)

    @property
    def streams_per_token(self) -> int:
        """Event streams that one token may have open."""
        return max(1, self.streams // 4)

    @property
    def body_bytes(self) -> int:
        """`body` in bytes."""
        return parse_bytes(self.body)

    @property
    def unpacked_bytes(self) -> int:
        """`unpacked` in bytes."""
        return parse_bytes(self.unpacked)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a service that listens on this host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "", "device.local")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(header: str) -> str:
    """Return the name or address in a Host header, in lower case and without its port.

    >>> host_name("Device.local:8470"), host_name("[::1]:8470"), host_name("10.0.0.5")
    ('device.local', '[::1]', '10.0.0.5')
    """
    name, bracket, rest = header.lower().rpartition("]")
    return name + bracket if bracket else rest.partition(":")[0]


def share_of(text: str, whole: int) -> int:
    """Return a size in bytes that is given as a size or as a percentage of a whole.

    Raises
    ------
    InputError
        If it is neither, or not above zero, or above 100 %.

    Examples
    --------
    >>> share_of("25%", 1000), share_of("2KB", 1000)
    (250, 2048)
    """
    if not text.endswith("%"):
        return parse_bytes(text)
    try:
        percent = float(text[:-1])
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise InputError(f"a share is a percentage above 0 and up to 100, as 25%, or a size, as 2GB, not {text!r}")
    return int(whole * percent / 100)


def read_settings(
    file: Path | None = None, environment: Mapping[str, str] = os.environ, **options: Any
) -> ServeSettings:
    """Return the settings of a service.

    Parameters
    ----------
    file
        A TOML file with the table `[serve]`.
    environment
        The environment variables.
    options
        Options of the command; those that are None are not set.

    Raises
    ------
    InputError
        If the file cannot be read, or a name or value is wrong.

    Examples
    --------
    >>> read_settings(environment={"CAUSE_SERVE_PORT": "9000"}, host=None).port
    9000
    """
    values = _table(file)
    for field in fields(ServeSettings):
        value = environment.get(PREFIX + field.name.upper())
        if value is not None:
            values[field.name] = _parse(field.name, value, _kind(field.type))
    values |= {name: value for name, value in options.items() if value is not None}
    return ServeSettings(**values)


def _kind(type_: Any) -> str:
    """Return the name of a field's type, as "str" or "int | None"."""
    return type_.__name__ if isinstance(type_, type) else str(type_)


def _table(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        with file.open("rb") as opened:
            tables = tomllib.loads(opened.read(LARGEST_BYTES).decode())
    except OSError as error:
        raise InputError(f"cannot read {str(file)!r}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{str(file)!r} is not TOML: {error}") from None
    table = tables.pop("serve", {})
    if tables or not isinstance(table, dict):
        raise InputError(f"{str(file)!r}: there is only the table [serve], not {sorted(tables)}")
    kinds = {field.name: _kind(field.type) for field in fields(ServeSettings)}
    for name, value in table.items():
        if name not in kinds:
            raise InputError(f"{str(file)!r}: [serve] has no {name!r}{nearest(name, kinds)}")
        kind = kinds[name]
        expected: Any = bool if kind == "bool" else str if "str" in kind else (int, float) if "float" in kind else int
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"{str(file)!r}: {name} must be {kinds[name]}, not {value!r}")
    return dict(table)


def _parse(name: str, value: str, kind: str) -> Any:
    if "str" in kind:
        return value
    if kind == "bool":
        if value.lower() not in _TRUE_FALSE:
            raise InputError(f"{PREFIX}{name.upper()} must be true or false, not {value!r}")
        return _TRUE_FALSE[value.lower()]
    try:
        return float(value) if "float" in kind else int(value)
    except ValueError:
        raise InputError(f"{PREFIX}{name.upper()} must be a number, not {value!r}") from None
