"""Finding out whether a path is inside a home, where no other files may be written."""

from pathlib import Path

from cause.errors import InputError

CONFIG = "cause.toml"
LEDGER = "ledger.db"


def enclosing_home(path: Path) -> Path | None:
    """Return the home in which a path is; None if it is in none.

    Examples
    --------
    >>> enclosing_home(Path("/proc/self/somewhere")) is None
    True
    """
    for folder in path.resolve().parents:
        try:
            if (folder / CONFIG).is_file() and (folder / LEDGER).is_file():
                return folder
        except OSError:  # a folder that cannot be looked into, or a name that is too long
            continue
    return None


def refuse_inside_home(path: Path, what: str) -> None:
    """Raise an `InputError` if a path is in a home, where it could replace the home's own files."""
    home = enclosing_home(path)
    if home is not None:
        raise InputError(f"{str(path)!r} is inside the home {str(home)!r}: {what} belongs elsewhere")
