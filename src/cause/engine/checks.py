"""What is refused before anything is done: users, classes and uploads that make no sense."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from cause.common.names import check_user, normal_name
from cause.engine.arrays import ArrayUpload
from cause.engine.learner import Learner
from cause.engine.samples import Upload
from cause.errors import EmptyRoundError, InputError

T = TypeVar("T")
MOST_CLASSES = 1_000_000
CLASSES = 10
"""When nobody says how many: the paper's data sets have so many."""


def classes_of(asked: int | None, learner: Learner) -> int:
    """How many classes a device has: as many as its learner tells apart."""
    classes = (learner.classes or CLASSES) if asked is None else asked
    check_classes(classes)
    if learner.classes not in (None, classes):
        raise InputError(f"the device is to have {classes} classes, but its learner tells {learner.classes} apart")
    return classes


def check_classes(classes: int) -> None:
    """Refuse an absurd number of classes."""
    if not 1 <= classes <= MOST_CLASSES:
        raise InputError(f"the number of classes must be from 1 to {MOST_CLASSES:,}, not {classes}")


def check_not_empty(arrived: Mapping[str, Upload], t: int, *, empty: bool) -> None:
    """Refuse a round of a home that nothing arrived for, unless it was asked for."""
    if not arrived and not empty:
        raise EmptyRoundError(
            f"nothing arrived for round {t}: an empty round makes every sample a round older, and `retain` may delete "
            'some; ask for it with empty=True (over HTTP {"empty": true})'
        )


def checked_uploads(uploads: Iterable[Upload], t: int) -> dict[str, Upload]:
    """The uploads of a round by user, in the order of their names."""
    arrived: dict[str, Upload] = {}
    for upload in uploads:
        check_user(upload.user)
        if upload.round != t:
            raise InputError(f"user {upload.user!r} uploads for round {upload.round}, but this is round {t}")
        if not len(upload.positions):
            raise InputError(f"the upload of user {upload.user!r} in round {t} is empty")
        if upload.user in arrived:
            raise InputError(f"user {upload.user!r} uploads twice in round {t}")
        arrived[upload.user] = upload
    return dict(sorted(arrived.items()))


def by_name(uploads: Mapping[str, T]) -> dict[str, T]:
    """Uploads by the normal form of their users' names; two of one user are refused."""
    found: dict[str, T] = {}
    for user, upload in uploads.items():
        name = normal_name(user)
        if name in found:
            raise InputError(f"user {name!r} uploads twice: {user!a} is the same name, written another way")
        found[name] = upload
    return found


def named_well(uploads: Iterable[Upload]) -> list[Upload]:
    """The same uploads; one with samples must have its user's name in normal form, since its ids were made with it.

    A trace may name its users as it likes.
    """
    listed = list(uploads)
    for upload in listed:
        if isinstance(upload, ArrayUpload) and upload.user != normal_name(upload.user):
            raise InputError(f"the user id {upload.user!a} is not in Unicode's normal form C: make the upload so")
    return listed
