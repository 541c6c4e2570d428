"""Paths that some library could not open are refused for the real reason, not taken for damaged files."""

import os
import subprocess
import sys

import pytest

from cause.common.files import absolute
from cause.device.device import Cause
from cause.errors import InputError
from tests.device.homes import bayes
from tests.quick import quick_only


@pytest.mark.parametrize("locale", quick_only(["POSIX", "C"], ["C"]))
def test_a_name_that_the_locale_cannot_say_names_the_locale(tmp_path, locale):
    home = tmp_path / "zoé" / "home"
    home.parent.mkdir()
    Cause(home, learner=bayes(), shards=1, slots=2).close()
    before = sorted(path.name for path in home.iterdir())
    for command in (["status", str(home)], ["doctor", "--home", str(home)], ["samples", str(home), "--user", "ann"]):
        result = subprocess.run(
            [sys.executable, "-m", "cause", *command],
            env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 2
        assert "the locale's encoding is" in result.stderr
        assert "damaged" not in result.stdout + result.stderr
        assert "Traceback" not in result.stderr
    assert sorted(path.name for path in home.iterdir()) == before
    Cause(home).close()


def test_a_name_of_bytes_that_are_no_text_is_refused():
    with pytest.raises(InputError, match="is not UTF-8: rename it"):
        absolute("/data/zo\udce9")
