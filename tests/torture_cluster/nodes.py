"""A Ray cluster with a head outside and a node in each namespace, with token and TLS."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.torture_cluster.certificates import make_certificates
from tests.torture_cluster.learners import CAPABILITY
from tests.torture_cluster.network import Link, Network, inside
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
MARK = "CAUSE_TORTURE_CLUSTER"
"""The variable by which the processes of this cluster are distinguished from others of the machine."""
START_S = 180
HEALTH = {
    "RAY_health_check_initial_delay_ms": "3000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_server_request_timeout_seconds": "10",
    "RAY_gcs_grpc_max_reconnect_backoff_ms": "1000",
    "RAY_raylet_rpc_server_reconnect_timeout_max_s": "5",
    "RAY_core_worker_rpc_server_reconnect_timeout_max_s": "5",
}
"""A node that is cut off for about 15 s is dead for Ray, which by default takes a minute, as does Ray's recovery from a
cut in the moment at which it starts an actor."""
OTHER_NODE = {CAPABILITY: "default"}
"""The variables of the last node, on which the environment of `ByProcessor` is another one."""


class Cluster:
    """Ray nodes in the namespaces of a network. The head has no CPU, so that every worker can be cut off.

    Parameters
    ----------
    network
        Its namespaces get a node each.
    folder
        For certificates, Ray's session and its logs. The path must be short: it holds sockets.
    """

    def __init__(self, network: Network, folder: Path) -> None:
        self.network, self.folder = network, folder
        with socket.create_server(("", 0)) as free:  # Ray's server listens on all addresses
            self._port: int = free.getsockname()[1]
        self.address = f"{network.address}:{self._port}"
        self.mark = secrets.token_hex(8)
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.variables = {
            **HEALTH,
            **make_certificates(folder, [network.address, *(link.address for link in network.links)]),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_worker_niceness": "0",  # by default workers get what all others leave: nothing, on a busy machine
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(paths),
            MARK: self.mark,
        }

    def _ray_folder(self, link: Link | None) -> Path:
        """Return where the files of Ray's head, or of the node of a namespace, are."""
        return self.folder / ("ray" if link is None else f"ray-{self.network.links.index(link)}")

    @property
    def ray_folders(self) -> list[Path]:
        """The folders with Ray's files, of the head and of each node."""
        return [self._ray_folder(link) for link in (None, *self.network.links)]

    def remove_session(self, link: Link) -> None:
        """Remove the whole session folder of a node while it runs: sockets, logs, everything."""
        for session in self._ray_folder(link).glob("session_*"):
            if not session.is_symlink():
                shutil.rmtree(session, ignore_errors=True)  # the node may write to it meanwhile

    def __enter__(self) -> "Cluster":
        for folder in self.ray_folders:
            folder.mkdir()
        try:
            self._start(
                None, "--head", f"--port={self._port}", "--num-cpus=0", "--include-dashboard=false",
                f"--temp-dir={self.folder / 'ray'}",
            )  # fmt: skip
            for link in self.network.links:
                self.start(link)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        wait_until(self._kill_all, 30, "processes of the cluster do not end")

    def _kill_all(self) -> bool:
        """Kill all processes; return whether none was left: a raylet may start another one meanwhile."""
        pids = list(self.processes())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    def start(self, link: Link) -> None:
        """Start the node of a namespace."""
        self._start(link, f"--address={self.address}", "--num-cpus=1")

    def _start(self, link: Link | None, *arguments: str) -> None:
        address = self.network.address if link is None else link.address
        ray = [str(Path(sys.executable).parent / "ray"), "start", "--disable-usage-stats"]
        common = [f"--node-ip-address={address}", f"--object-store-memory={80 << 20}"]
        command = [*ray, *arguments, *common]
        if link is not None:  # Ray's folder has one path on all nodes, and is another one on each, as on machines
            own_folder = f'mount --bind "{self._ray_folder(link)}" "{self._ray_folder(None)}" && exec "$@"'
            command = ["sh", "-c", own_folder, "sh", *command]
        done = subprocess.run(
            inside(link, command),
            env={**os.environ, **self.variables, **(OTHER_NODE if link is self.network.links[-1] else {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        if done.returncode:
            raise OSError(f"a Ray node at {address} does not start: {(done.stdout + done.stderr)[-2000:]}")

    def raylets(self) -> dict[Link, int]:
        """Return the process of the raylet of each namespace, where it runs."""
        found = {}
        for pid, command in self.processes().items():
            for link in self.network.links:
                if command.split(" ")[0].endswith("/raylet") and f"={link.address} " in command:
                    found[link] = pid
        return found

    def processes(self) -> dict[int, str]:
        """Return the numbers of all processes of this cluster with their command lines, wherever they were started."""
        mark = f"{MARK}={self.mark}".encode()
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    ours = mark in (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if ours:
                    found[int(folder.name)] = command_of(int(folder.name))
        return found

    def workers(self) -> list[int]:
        """Return the processes that train."""
        return [pid for pid, command in self.processes().items() if is_worker(command)]


def is_worker(command: str) -> bool:
    """Return whether a command line is that of a process that trains."""
    return command.startswith("ray::TrainingWorker")


def command_of(pid: int) -> str:
    """Return the command line of a process; an empty text if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
