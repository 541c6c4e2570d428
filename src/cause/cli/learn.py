"""`cause learn`."""

from typing import Annotated

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, training_bar


def learn(
    home: h.HomeFolder,
    data: h.DataFiles,
    user: Annotated[str | None, typer.Option(help="Whose samples these are, where the files do not say.")] = None,
    split: h.Split = "train",
    class_names: h.ClassNames = None,
    repair: h.Repair = None,
    json: o.AsJson = False,
) -> None:
    """Learn one round: all these files, several users in one file or one user in several."""
    with training_bar("learning") as watch, h.opened(home, watch=watch) as device:
        from cause.data.uploads import read_uploads

        when = h.repair_of(home, repair)
        uploads = read_uploads(data, device.classes, user=user, split=split, class_names=h.names_of(class_names))
        done = device.learn(uploads, repair=when)
        aside = [each for each in device.ledger.quarantined() if each.round == done.round]
        waiting, clock = device.waiting(), device.home.time.doubt() if device.home else None
    told = {
        "round": done.round,
        "users": len(uploads),
        "samples": done.samples,
        "active_shards": done.active_shards,
        "trained": [h.key_of(key) for key in done.trained],
        "waiting": waiting,
        "quarantined": [h.quarantined(each) for each in aside],
        "clock": clock,
    }
    if json:
        print_json(told)
        return
    print(
        f"round {done.round}: {done.samples:,} samples of {len(uploads):,} users, {len(done.trained)} segments trained"
    )
    for each in aside:
        print(
            f"note: {each.samples:,} samples of user {each.user!r} are in quarantine: trained on alone they end with "
            f"{each.verdict} (`cause drop {home} --upload {each.upload}` destroys them)"
        )
    if clock is not None:
        print(f"note: {clock}")
    if waiting:
        print(f"shards that wait for a repair: {', '.join(map(str, waiting))}")
