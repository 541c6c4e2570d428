"""Numbers and texts from the kernel's files."""

from pathlib import Path

from cause.errors import MeterError


def read_text(path: Path) -> str:
    """The text of a small file, or plainly why not."""
    try:
        return path.read_text().strip()
    except PermissionError:
        raise MeterError(f"no permission to read {path}: run as root, or allow it (chmod a+r {path})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not text'}") from None


def read_int(path: Path) -> int:
    """The number in a small file."""
    text = read_text(path)
    try:
        return int(text)
    except ValueError:
        raise MeterError(f"{path} holds {text[:20]!r}, not a number") from None
