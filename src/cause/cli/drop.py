"""`cause drop`."""

from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, training_bar


def drop(
    home: h.HomeFolder,
    upload: Annotated[int, typer.Option(help="Which upload, by the number that `cause status` shows.")],
    repair: h.Repair = None,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    json: o.AsJson = False,
) -> None:
    """Forget what is in quarantine of an upload: a request with a receipt, as any other."""
    with (
        training_bar("retraining") as watch,
        h.opened(home, watch=watch, executor=h.executor_of(ray, per_worker, other_environments, lease)) as device,
    ):
        forgotten = device.drop(upload, repair=h.repair_of(home, repair))
        waiting = device.waiting()
    if json:
        print_json({"request": forgotten.ids[0], "upload": upload, "samples": forgotten.samples, "waiting": waiting})
        return
    print(f"request {forgotten.ids[0]}: {forgotten.samples:,} samples of upload {upload} are destroyed")
