"""`make test-image`: the image in a real container, with the limits that docs/operations.md names.

python -m tests.service.image [--engine docker] [--options ""] [--image cause]
"""

import argparse
import json
import os
import secrets
import shlex
import subprocess
import time

from cause.cli.output import print_table
from cause.client import Client
from cause.client.status import Status
from cause.lab.digits import load_digits
from tests.waiting import pass_time, wait_until

HOME = "/var/lib/cause/device"
LIMITS = (
    "--read-only", "--tmpfs", "/tmp", "--memory", "1g", "--cpus", "2", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges", "--stop-timeout", "30",
)  # fmt: skip
WRITABLE = {"/tmp", "/var/lib/cause"}
APART = " -o ".join(f"-path {path}" for path in ("/proc", "/sys", "/dev", HOME))
WRITES = rf"find / \( {APART} \) -prune -o -writable ! -type l -print"


class Container:
    """A device in a container, on a volume that outlives it and goes at the end."""

    def __init__(self, engine: list[str], options: list[str], image: str) -> None:
        # podman adds writable folders of its own (/run, /var/tmp) to a read-only root, which docker does not
        apart = ["--read-only-tmpfs=false"] if "podman" in engine[0] else []
        self.engine, self.options, self.image = engine, [*apart, *options], image
        self.name = f"cause-{secrets.token_hex(4)}"
        self.volume = ["-v", f"{self.name}:/var/lib/cause", "-e", "CAUSE_MASTER"]
        self.port = ""

    def call(self, *args: str, check: bool = True) -> str:
        done = subprocess.run([*self.engine, *args], check=False, text=True, stdout=subprocess.PIPE)
        assert done.returncode == 0 or not check, f"{' '.join(args)} ended with {done.returncode}"
        return done.stdout.strip()

    def once(self, *args: str) -> str:
        return self.call("run", "--rm", *LIMITS, *self.options, *self.volume, self.image, *args)

    def inside(self, *args: str) -> str:
        return self.call("exec", self.name, *args)

    def run(self) -> None:
        publish = ["-p", "127.0.0.1::8470"]
        self.call("run", "-d", "--name", self.name, *LIMITS, *self.options, *publish, *self.volume, self.image)

    def wait(self, healthcheck: list[str]) -> float:
        """Until the image's own HEALTHCHECK is content; the seconds it took."""
        start, command = time.monotonic(), [*self.engine, "exec", self.name, *healthcheck]
        wait_until(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, 60)
        self.port = self.call("port", self.name, "8470").splitlines()[0].rsplit(":", 1)[1]
        return time.monotonic() - start

    def client(self, secret: str) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", secret)

    def memory_mb(self) -> float:
        """Of the service's own process."""
        status = self.inside("cat", "/proc/1/status").splitlines()
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

    def remove(self) -> None:
        self.call("rm", "-f", self.name, check=False)
        self.call("volume", "rm", "-f", self.name, check=False)


def trained(client: Client) -> Status | None:
    status = client.status()
    idle = status["training"] is None and not status["repair"]["waiting"] and not status["requests"]["open"]
    return status if idle and status["voting"] else None


def lived(container: Container) -> list[list[str]]:
    """Make, serve, learn, forget, stop, start again; what was measured."""
    found = json.loads(container.call("image", "inspect", container.image))[0]
    assert "CAUSE_MASTER" not in json.dumps(found), "the image must hold no key"
    healthcheck = (found.get("Healthcheck") or found["Config"]["Healthcheck"])["Test"][1:]
    container.once("init", HOME, "--estimator", "GaussianNB", "--features", "64", "--key-env", "CAUSE_MASTER")
    container.run()
    started_s = container.wait(healthcheck)
    assert container.inside("id", "-u") == "10001"
    writable = set(container.inside("sh", "-c", f"{WRITES} 2>/dev/null; true").splitlines())
    assert writable == WRITABLE, f"the user can write {sorted(writable ^ WRITABLE)}"
    tokens = {
        scope: container.inside("cause", "token", "create", HOME, "--scope", scope) for scope in ("operator", "auditor")
    }
    x, y = load_digits()
    with container.client(tokens["operator"]) as device:
        for number, user in enumerate(("ann", "bob", "eve")):
            device.upload(user, x[number:900:3], y[number:900:3])
        device.close_round()
        wait_until(lambda: trained(device), 60)
        right = (y[900:] == device.predict(x[900:]).labels).mean()
        assert right > 0.6, f"only {right:.0%} right"
        request = device.erase("ann")
        wait_until(lambda: trained(device), 60)
        labels = device.predict(x[900:]).labels
        pass_time(1)  # memory is measured while the service idles
        idle_mb = container.memory_mb()
    container.call("stop", container.name)
    code = container.call("inspect", "--format", "{{.State.ExitCode}}", container.name)
    assert code == "0", f"a stop ended with {code}"
    container.call("start", container.name)
    again_s = container.wait(healthcheck)
    with container.client(tokens["auditor"]) as auditor:
        assert trained(auditor)["samples"] == 600
        assert len(auditor.receipts(request.id)) == len(auditor.request(request.id).receipts) == 2
        effect, repair = auditor.request(request.id).receipts
        for number in (effect, repair):  # a shard that held ann's samples alone is empty: nothing is left to replay
            assert auditor.verify(number).state in ("holds", "nothing")
        every = auditor.verify()
        assert every.state == "holds", every
    with container.client(tokens["operator"]) as device:
        assert device.predict(x[900:]).labels == labels
        assert device.user("ann")["samples"] == 0
    return [
        ["size of the image", f"{found['Size'] / 1e6:.0f} MB"],
        ["idle, after predictions", f"{idle_mb:.0f} MB"],
        ["ready after the first start, and the second", f"{started_s:.1f} s and {again_s:.1f} s"],
    ]


def main() -> None:
    """Try it and show what it takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.image", description=__doc__)
    parser.add_argument("--engine", default="docker", help="docker, or podman with its own options")
    parser.add_argument("--options", default="", help="more options for `run`")
    parser.add_argument("--image", default="cause")
    asked = parser.parse_args()
    os.environ["CAUSE_MASTER"] = secrets.token_hex(32)
    container = Container(shlex.split(asked.engine), shlex.split(asked.options), asked.image)
    try:
        rows = lived(container)
    finally:
        container.remove()
    print_table("The image", ["what", ""], rows)


if __name__ == "__main__":
    main()
