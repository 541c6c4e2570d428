"""What to do about a damaged home, for error messages."""

import shlex
from pathlib import Path


def doctor_advice(folder: Path | None = None) -> str:
    """Return the sentence that names the command which lists the damage.

    Parameters
    ----------
    folder
        The home's folder. None leaves the path out: a service shows the text of a `LogError` also to users.

    >>> doctor_advice(Path("/srv/my device"))
    "`cause doctor --home '/srv/my device'` lists the damage"
    """
    home = "HOME" if folder is None else shlex.quote(str(folder))
    return f"`cause doctor --home {home}` lists the damage"
