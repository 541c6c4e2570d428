"""Whether the stored states of an additive learner are the sums of the samples that are held."""

from pathlib import Path

from cause.device.device import Cause
from cause.engine.samples import SegmentKey
from cause.errors import CauseError


def wrong_sums(folder: str | Path) -> tuple[list[SegmentKey], str | None]:
    """Add up all samples of a home, beside the process that writes it, and compare with every stored state.

    Returns
    -------
    tuple
        The states that are not the sum of their samples, and why nothing could be compared; None if it was.
    """
    try:
        with Cause(folder, read_only=True) as device:
            return device.verify(processes=0).mismatched, None
    except CauseError as error:
        return [], str(error)
