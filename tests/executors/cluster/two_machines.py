"""Two Ray nodes in two network namespaces: for Ray and for a device, these are two machines with a network between."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HEAD, OTHER, PORT = "10.231.7.1", "10.231.7.2", 6391


def can_make_machines() -> bool:
    """Whether this process may make network namespaces."""
    tools = all(shutil.which(tool) for tool in ("ip", "openssl"))
    return tools and os.geteuid() == 0 and subprocess.run(["unshare", "-n", "true"], check=False).returncode == 0


@dataclass(frozen=True)
class Machines:
    """The two namespaces, and the variables with which their nodes were started."""

    names: tuple[str, str]
    variables: Mapping[str, str]
    address: str = f"{HEAD}:{PORT}"

    def command(self, number: int, command: Sequence[str]) -> list[str]:
        """Return a command that runs on one of them."""
        return ["ip", "netns", "exec", self.names[number], *command]

    def run(self, program: str, *arguments: str, without: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """Run a Python program on the machine of the head, with the variables of the nodes except some."""
        environment = {**os.environ, **self.variables}
        environment = {name: value for name, value in environment.items() if name not in without}
        command = self.command(0, [sys.executable, "-c", program, *arguments])
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def two_machines(variables: Mapping[str, str]) -> Iterator[Machines]:
    """Start a node in each of two namespaces; stop them and remove the namespaces afterwards."""
    from ray.scripts import scripts  # the same as the command `ray`

    mark = secrets.token_hex(3)
    machines = Machines((f"cause{mark}a", f"cause{mark}b"), variables)
    with ExitStack() as ends, tempfile.TemporaryDirectory(prefix="cr", dir="/tmp") as folder:
        for name in machines.names:
            _ip("netns", "add", name)
            ends.callback(_ip, "netns", "del", name)
        _ip("link", "add", f"ca{mark}", "netns", machines.names[0], "type", "veth", "peer", "name", f"cb{mark}",
            "netns", machines.names[1])  # fmt: skip
        for name, device, address in zip(machines.names, (f"ca{mark}", f"cb{mark}"), (HEAD, OTHER), strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            for each in (device, "lo"):
                _ip("-n", name, "link", "set", each, "up")
        common = ["--num-cpus", "1", "--object-store-memory", str(80 << 20), "--disable-usage-stats", "--block"]
        head = ["--head", "--port", str(PORT), "--include-dashboard=false", "--temp-dir", folder]
        for number, address, options in (0, HEAD, head), (1, OTHER, ["--address", machines.address]):
            start = [sys.executable, scripts.__file__, "start", "--node-ip-address", address, *options, *common]
            log = ends.enter_context(Path(folder, f"start-{number}.txt").open("w"))
            node = subprocess.Popen(
                machines.command(number, start), env={**os.environ, **variables}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            ends.callback(_end, node)
            _await_node(machines, Path(folder, f"start-{number}.txt"), node)
        yield machines


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _await_node(machines: Machines, log: Path, node: "subprocess.Popen[bytes]") -> None:
    from tests.waiting import wait_until

    wait_until(lambda: "Ray runtime started" in log.read_text() or node.poll() is not None, 120, log.read_text)
    assert node.poll() is None, log.read_text()


def _end(node: "subprocess.Popen[bytes]") -> None:
    """End a node and every process in its namespace's session."""
    os.killpg(node.pid, signal.SIGTERM)
    try:
        node.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


def certificates(folder: Path) -> dict[str, str]:
    """Make an authority and a certificate for both machines with openssl; return Ray's variables for them."""
    names = f"subjectAltName=IP:{HEAD},IP:{OTHER},IP:127.0.0.1,DNS:localhost"
    (folder / "names.cnf").write_text(names + "\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout authority.key -out authority.crt",
        "req -newkey rsa:2048 -nodes -subj /CN=node -keyout node.key -out node.csr",
        "x509 -req -in node.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -extfile names.cnf "
        "-out node.crt",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    files = {"RAY_TLS_SERVER_CERT": "node.crt", "RAY_TLS_SERVER_KEY": "node.key", "RAY_TLS_CA_CERT": "authority.crt"}
    return {"RAY_USE_TLS": "1", **{name: str(folder / file) for name, file in files.items()}}
