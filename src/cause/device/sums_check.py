"""Whether the stored states of an additive learner are the sums of the samples that are held."""

from pathlib import Path

from cause.device.config import read_config
from cause.device.device import Cause
from cause.device.store.layout import Layout
from cause.engine.samples import SegmentKey
from cause.errors import CauseError
from cause.learners.described import build_additive


def wrong_sums(folder: str | Path) -> tuple[list[SegmentKey], str | None]:
    """Add up all samples of a home, beside the process that writes it, and compare with every stored state.

    Returns
    -------
    tuple
        The states that are not the sum of their samples, and why nothing could be compared; None if it was.
    """
    try:
        learner = build_additive(read_config(Layout(folder).config).learner)
        with Cause(folder, learner=learner, read_only=True) as device:
            return device.verify(processes=0).mismatched, None
    except CauseError as error:
        return [], str(error)
