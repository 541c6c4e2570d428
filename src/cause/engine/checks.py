"""Checks of users, classes and uploads, before anything is recorded."""

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
"""The default, as in the paper's data sets."""


def classes_of(setting: int | None, learner: Learner) -> int:
    """Return the number of classes of a device: the setting, the learner's, or 10.

    Raises
    ------
    InputError
        If setting and learner differ, or the number is out of range.
    """
    classes = (learner.classes or CLASSES) if setting is None else setting
    check_classes(classes)
    if learner.classes not in (None, classes):
        raise InputError(f"the device is to have {classes} classes, but its learner tells {learner.classes} apart")
    return classes


def check_classes(classes: int | None) -> None:
    """Raise an `InputError` unless the number of classes is from 1 to 1,000,000."""
    if classes is None or not 1 <= classes <= MOST_CLASSES:
        raise InputError(f"the number of classes must be from 1 to {MOST_CLASSES:,}, not {classes}")


def check_not_empty(arrived: Mapping[str, Upload], t: int, *, empty: bool) -> None:
    """Raise an `EmptyRoundError` if there are no uploads, unless an empty round is allowed."""
    if not arrived and not empty:
        raise EmptyRoundError(
            f"nothing arrived for round {t}: an empty round makes every sample a round older, and `retain` may delete "
            'some; ask for it with empty=True (over HTTP {"empty": true})'
        )


def checked_uploads(uploads: Iterable[Upload], t: int) -> dict[str, Upload]:
    """Return the uploads of a round by user, sorted by name.

    Raises
    ------
    InputError
        If an upload is empty or of another round, or a user uploads twice.
    """
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


def by_normal_name(uploads: Mapping[str, T]) -> dict[str, T]:
    """Return uploads by the normal form of their users' names; an `InputError` if a user uploads twice."""
    normalized: dict[str, T] = {}
    for user, upload in uploads.items():
        name = normal_name(user)
        if name in normalized:
            raise InputError(f"user {name!r} uploads twice: {user!a} is the same name, written another way")
        normalized[name] = upload
    return normalized


def check_names(uploads: Iterable[Upload]) -> list[Upload]:
    """Return the same uploads as a list, after checking their users' names.

    The user's name in an upload with data must be in normal form, since the ids contain it. In a trace it need not be.

    Raises
    ------
    InputError
        If a name is not in normal form.
    """
    listed = list(uploads)
    for upload in listed:
        if isinstance(upload, ArrayUpload) and upload.user != normal_name(upload.user):
            raise InputError(f"the user id {upload.user!a} is not in Unicode's normal form C: make the upload so")
    return listed
