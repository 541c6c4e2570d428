"""Users' names: their normal form, and which spellings are the same name.

Two names that look alike must not be two users: an erasure of the one would miss the other. So a name is kept in
Unicode's normal form C, and one with white space at an edge or with invisible characters is refused. Homes of
earlier versions may hold such names; `fold` tells which name each of them is.
"""

import unicodedata
from typing import Any

from cause.errors import InputError

LONGEST_USER_ID = 256
UNSEEN_CATEGORIES = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"))
UNSEEN = frozenset(
    map(
        chr,
        (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0,
         *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
    )
)  # fmt: skip
"""Characters of other categories that show nothing: fillers, joiners, variation selectors, the blank of Braille."""


def is_unseen(character: str) -> bool:
    r"""Return whether a character is a control character or invisible; a space is neither.

    >>> is_unseen("\u200b"), is_unseen("e"), is_unseen(" ")
    (True, False, False)
    """
    return character in UNSEEN or unicodedata.category(character) in UNSEEN_CATEGORIES


def check_user(user: Any) -> None:
    """Raise an `InputError` for what cannot be a user's id: no text, empty, too long, or impossible in UTF-8."""
    if not isinstance(user, str) or not 1 <= len(user) <= LONGEST_USER_ID:
        seen = f"one of {len(user)}" if isinstance(user, str) else repr(user)
        raise InputError(f"a user id is a text of 1 to {LONGEST_USER_ID} characters, not {seen}")
    if any("\ud800" <= character <= "\udfff" for character in user):
        raise InputError(f"a user id is a text that can be written in UTF-8, not {user!r}")


def normal_name(user: Any) -> str:
    r"""Return a user's id in Unicode's normal form C, in which it is stored.

    Raises
    ------
    InputError
        If it is no text of 1 to 256 characters, begins or ends with white space, or holds a control or an invisible
        character.

    Examples
    --------
    >>> normal_name("zoe\u0301") == "zo\u00e9"
    True
    >>> normal_name("zoe ")
    Traceback (most recent call last):
    cause.errors.InputError: the user id 'zoe ' begins or ends with white space: leave that out
    """
    check_user(user)
    if user.isascii() and user.isprintable():
        name: str = user
    else:
        for character in user:
            if is_unseen(character):
                raise InputError(
                    f"the user id {user!a} holds the invisible character U+{ord(character):04X}: leave that out"
                )
        name = unicodedata.normalize("NFC", user)
        if len(name) > LONGEST_USER_ID:
            raise InputError(f"a user id is a text of 1 to {LONGEST_USER_ID} characters, not one of {len(name)} in NFC")
    if name != name.strip():
        raise InputError(f"the user id {name!r} begins or ends with white space: leave that out")
    return name


def fold(user: str) -> str:
    r"""Return a form that all spellings of one name share; a name that `normal_name` returned stays as it is.

    >>> {fold(name) for name in ("zoé", "zoe\u0301", "zoé ", "zo\u200bé", "\u2060zoé")} == {"zoé"}
    True
    """
    if user.isascii() and user.isprintable():
        return user.strip()
    return unicodedata.normalize("NFC", "".join(character for character in user if not is_unseen(character))).strip()
