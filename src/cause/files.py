"""Files that are written whole or not at all."""

from pathlib import Path

from cause.errors import InputError


def write_text(path: str | Path, text: str) -> None:
    """Write a file, whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None
