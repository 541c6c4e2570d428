"""Reading numbers and texts from the kernel's files."""

from pathlib import Path

from cause.errors import MeterError


def read_text(path: Path) -> str:
    """Return the text of a small file; raise an error of one line if it cannot be read."""
    try:
        return path.read_text().strip()
    except PermissionError:
        raise MeterError(f"no permission to read {path}: run as root, or allow it (chmod a+r {path})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not text'}") from None


def read_int(path: Path) -> int:
    """Return the number in a small file."""
    text = read_text(path)
    try:
        return int(text)
    except ValueError:
        raise MeterError(f"{path} holds {text[:20]!r}, not a number") from None
