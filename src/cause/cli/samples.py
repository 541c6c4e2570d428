"""`cause samples`."""

from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table

PAGE = 50
"""Samples that the table shows by default."""


def samples(
    home: h.HomeFolder,
    user: Annotated[str, typer.Option(help="Whose samples.")],
    round_: Annotated[int | None, typer.Option("--round", min=1, help="Only those of this round.")] = None,
    first: o.First = None,
    most: o.Most = None,
    json: o.AsJson = False,
) -> None:
    """List what is held of a user: each sample's round, handle, label, and when it arrived.

    Give handles to `cause forget --handles`. A sample that waits for a round has none yet.
    """
    with h.opened(home, read_only=True, without_learner=True) as device:
        assert device.home is not None
        name = device.name_of(user)
        with device.lock:
            _, total = device.home.listing.page(name, round_=round_, most=0)
            most = (total if json else PAGE) if most is None else most
            start = max(0, total - most) if first is None else first
            listed_samples, _ = device.home.listing.page(name, round_=round_, first=start, most=most)
    if json:
        listed = [
            {"number": start + at, "round": s.round, "handle": s.handle, "label": s.label, "arrived": s.arrived}
            for at, s in enumerate(listed_samples)
        ]
        print_json({"user": name, "total": total, "samples": listed})
        return
    if not total:
        print(f"nothing is held of user {name!r}" + ("" if round_ is None else f" of round {round_}"))
        return
    rows = [
        [
            str(start + at),
            s.handle,
            "waits" if s.round is None else str(s.round),
            str(s.label),
            h.format_time(s.arrived),
        ]
        for at, s in enumerate(listed_samples)
    ]
    print_table(f"Samples of {name}", ["no.", "handle", "round", "label", "arrived (UTC)"], rows, names=2)
    if len(listed_samples) < total:
        print(f"{len(listed_samples)} of {total:,} samples: --first 0 --most 100 shows the oldest hundred")
