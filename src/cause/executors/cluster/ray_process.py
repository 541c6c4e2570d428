"""The process that has joined a Ray cluster for a device: `python -m cause.executors.cluster.ray_process DESCRIPTOR`.

Ray ends a process that has joined a cluster when the cluster's head is gone for a minute, or is another one. So it is a
process of its own, which the device starts and can start again. It places workers and knows nothing else: no sample,
sub-model or key comes here. It takes calls and answers them as lines of JSON, each call in a thread of its own.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from cause.errors import InputError
from cause.executors.cluster.connection import join

PARENT_S = 1.0
"""How often it looks whether the device's process is still there."""
NODE_S = 5.0
"""How often it looks whether the node through which it has joined is still alive. Without it Ray places nothing, and
says nothing."""

LEAVE_S = 5.0
"""How long it may take to leave a cluster, which may not answer any more."""


class Actors:
    """The actors of the workers, by number, and the nodes they are placed on.

    Parameters
    ----------
    ray
        The module `ray`, which has joined the cluster.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._handles: dict[int, Any] = {}

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that are alive."""
        named = ("NodeID", "NodeManagerAddress", "Resources")
        return [{name: node[name] for name in named} for node in self._ray.nodes() if node["Alive"]]

    def start(self, number: int, options: dict[str, Any], arguments: list[Any]) -> None:
        """Ask Ray for an actor. It is never restarted by Ray, and no call is repeated: the device does that."""
        from cause.executors.cluster.actor import TrainingWorker

        host, port, device_key, lease, seconds = arguments
        cls = self._ray.remote(TrainingWorker).options(
            max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD", **options
        )
        self._handles[number] = cls.remote(host, port, bytes.fromhex(device_key), bytes.fromhex(lease), seconds)

    def placed(self, number: int, timeout: float) -> list[str]:
        """Wait until an actor runs, and return the name and the address of its node; TimeoutError if it does not."""
        return list(self._ray.get(self._handles[number].node.remote(), timeout=timeout))

    def public_key(self, number: int, timeout: float) -> str:
        """Return an actor's public key; TimeoutError if it does not answer."""
        return bytes(self._ray.get(self._handles[number].public_key.remote(), timeout=timeout)).hex()

    def run(self, number: int) -> None:
        """Let an actor connect to the device."""
        self._handles[number].run.remote()

    def remove(self, number: int) -> None:
        """Tell Ray that an actor is not needed any more."""
        handle = self._handles.pop(number, None)
        if handle is not None:
            self._ray.kill(handle, no_restart=True)


def serve(connection: socket.socket) -> None:
    """Join the cluster that the first call names, and answer calls until the device closes the connection."""
    lines, lock = connection.makefile("rb"), threading.Lock()
    first = json.loads(lines.readline())
    calls: dict[str, Callable[..., Any]] = {}

    def answer(call: dict[str, Any]) -> None:
        try:
            reply = {"value": calls[call["name"]](**call["arguments"])}
        except Exception as error:  # of Ray, or of ours
            kind = "timeout" if isinstance(error, TimeoutError) else "input" if isinstance(error, InputError) else "ray"
            reply = {"error": kind, "text": _line_of(error)}
        with lock, contextlib.suppress(OSError):  # the device is gone
            connection.sendall(json.dumps({"number": call["number"], **reply}).encode() + b"\n")

    def join_cluster(address: str, program: str) -> str:
        sys.argv[:] = [program]  # Ray lets workers import what lies beside it
        ray = join(address)
        actors = Actors(ray)
        calls.update({call.__name__: call for call in (
            actors.nodes, actors.start, actors.placed, actors.public_key, actors.run, actors.remove,
        )})  # fmt: skip
        threading.Thread(target=_watch_node, args=(ray,), daemon=True).start()
        return str(ray.util.get_node_ip_address())

    calls["join"] = join_cluster
    answer(first)
    for line in lines:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


def _line_of(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200] if text else type(error).__name__


def _leave() -> None:
    """Leave the cluster in an orderly way: what the device has occupied there is free at once."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def _watch_node(ray: Any) -> None:
    """End this process when the node through which it has joined is dead; the device then starts another one."""
    own = ray.get_runtime_context().get_node_id()
    while True:
        time.sleep(NODE_S)
        if not any(node["Alive"] and node["NodeID"] == own for node in ray.nodes()):
            os._exit(1)


def _watch_parent(parent: int) -> None:
    """End this process with the device's, also where a fork of that keeps the connection open."""
    while os.getppid() == parent:
        time.sleep(PARENT_S)
    os._exit(1)


def main() -> None:
    """Serve the connection whose descriptor is the argument."""
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)
        serve(connection)
    leaving = threading.Thread(target=_leave, daemon=True)
    leaving.start()
    leaving.join(LEAVE_S)
    os._exit(0)  # Ray's own threads could keep it


if __name__ == "__main__":
    main()
