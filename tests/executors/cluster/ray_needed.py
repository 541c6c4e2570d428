"""What every test on a real Ray cluster needs. Ray reads its variables when it is imported: not before they are set."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HAS_RAY = find_spec("ray") is not None or os.environ.get("CAUSE_RAY") == "required"
MARKS = [
    pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed: make test-cluster"),
    pytest.mark.filterwarnings("default::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def let_nodes_import_tests() -> None:
    """Let the nodes' workers import the learners of the tests."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
