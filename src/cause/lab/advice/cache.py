"""A cache of measurements in a file: a run that was stopped goes on where it was."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from cause.common.files import write_text
from cause.errors import InputError
from cause.lab.advice.measure import Row

FORMAT = 1


class MeasurementCache:
    """Measured rows, by the digest of everything that decides them.

    Parameters
    ----------
    path
        The file; with None the rows are in memory only.

    Raises
    ------
    InputError
        If the file is not one of measurements.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._rows = path, dict[str, Row]()
        if path is None or not path.exists():
            return
        try:
            contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in fields(Row)}
            if contents["format"] != FORMAT or not all(set(row) == names for row in contents["rows"].values()):
                raise ValueError
            self._rows = {key: Row(**row) for key, row in contents["rows"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{str(path)!r} holds no measurements of cause advise: name another file") from None

    def get(self, key: str) -> Row | None:
        """Return a row that was measured before."""
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        """Keep a row, in the file too."""
        self._rows[key] = row
        if self._path is not None:
            rows = {own: each.as_dict() for own, each in self._rows.items()}
            write_text(self._path, json.dumps({"format": FORMAT, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
