"""`cause expire`."""

from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, training_bar
from cause.errors import InputError


def expire(
    home: h.HomeFolder,
    repair: h.Repair = None,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Accept the clock's time, which `cause status` says is not believed.")
    ] = False,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Forget what is older than the home keeps samples (`cause init --retain`), also where no round is learned."""
    retain = h.config_of(home).settings.retain
    if retain is None and not trust_clock:
        raise InputError(f"{str(home)!r} keeps samples until they are forgotten: it was made without --retain")
    when = h.repair_of(home, repair)
    with (
        training_bar("retraining") as watch,
        h.opened(
            home,
            watch=watch,
            deferred=when == "later",
            executor=h.executor_of(ray, per_worker, other_environments, lease),
        ) as device,
    ):
        from cause.device.core import home_of

        forgotten = device.expire(repair=when, trust_clock=trust_clock)
        staged, clock = home_of(device).inbox.expired, home_of(device).time.doubt()
        waiting = device.waiting()
    samples = 0 if forgotten is None else forgotten.samples
    dropped, rsn = (() if forgotten is None else forgotten.dropped), (0 if forgotten is None else forgotten.rsn)
    if json:
        result = {
            "retain": retain,
            "samples": samples,
            "staged": staged,
            "destroyed": [h.key_of(key) for key in dropped],
        }
        print_json({**result, "rsn": rsn, "waiting": waiting, "clock": clock})
        return
    if clock is not None:
        print(f"note: {clock}")
    if retain is None:
        print("the clock is accepted; samples are kept until they are forgotten")
        return
    saw = f"{len(dropped)} sub-models that saw them"
    print(f"older than {retain}, destroyed: {samples:,} samples, {saw}, and {staged:,} samples that waited for a round")
    if waiting:
        print(f"shards that wait for a repair: {', '.join(map(str, waiting))} (`cause repair {home}`)")
    else:
        print(f"retrained samples: {rsn:,}")
