"""The environment of each shard: all sub-models of a shard are trained in one environment.

Bits depend on the environment (`Learner.environment`). An executor may offer several, as a cluster of different
machines does. Then each shard is given one of them before it is trained for the first time, and that is recorded. The
choice depends on the number of the shard and on the machines that are there, never on samples or on which worker is
free. A shard without a record is trained in the environment of the device, whichever that is at the time.
"""

from collections.abc import Iterable, Mapping

from cause.errors import AbsentEnvironmentError


def choose(shard: int, room: Mapping[str, int]) -> str:
    """Return the environment of a shard that was never trained.

    Shards are spread over the environments in proportion to their workers.

    Parameters
    ----------
    shard
        The number of the shard.
    room
        The environments, each with the number of workers there is room for.

    Examples
    --------
    >>> [choose(shard, {"a": 2, "b": 1}) for shard in range(6)]
    ['a', 'b', 'a', 'a', 'b', 'a']
    """
    order = sorted(((2 * number + 1) / workers, name) for name, workers in room.items() for number in range(workers))
    return order[shard % len(order)][1]


def absent(shard: int, environment: str, there: Iterable[str]) -> AbsentEnvironmentError:
    """Return the error of a shard whose environment is not among those that are there."""
    others = "; ".join(sorted(set(there))) or "none"
    return AbsentEnvironmentError(
        f"shard {shard} waits for a worker of its environment ({environment}), and there is only: {others}. Train on a "
        "cluster with a node of that environment and --other-environments whole-shards, or train the shard from "
        f"scratch here: `cause repair HOME --from-scratch {shard}`"
    )
