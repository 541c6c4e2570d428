"""`cause accuracy`."""

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json


def accuracy(home: h.HomeFolder, json: o.AsJson = False) -> None:
    """Estimate the accuracy of an additive learner from the samples it holds: each is predicted without itself."""
    with h.opened(home, read_only=True) as device:
        from cause.device.expected_accuracy import expected_accuracy

        estimate = expected_accuracy(device)
    if json:
        print_json(estimate.as_dict())
    elif estimate.accuracy is None:
        print("fewer than two samples are held: there is nothing to predict one from")
    else:
        print(f"{estimate.accuracy:.1%} of {estimate.samples:,} samples are predicted right without themselves")
