"""How much of `src` one upload and one erasure pass through, and how long `src` is: the table in CONTRIBUTING.md.

python -m benchmarks.walk
"""

import ast
import io
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

import cause
from cause import Cause
from cause.learners.sklearn import SklearnLearner

PACKAGE = Path(cause.__file__).parent
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def files_of(call: Callable[[], Any]) -> set[Path]:
    """Return the files of the package of which any function runs during a call, in any thread."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {Path(name) for name in names if Path(name).is_relative_to(PACKAGE)}


def lines_of(path: Path) -> tuple[int, int]:
    """Return how many lines of a file have code, and how many have docstrings."""
    text = path.read_text(encoding="utf-8")
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docs |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docs), len(docs)


def walked() -> tuple[set[Path], set[Path]]:
    """Return the files that an upload and an erasure pass through, on a device that has learned a round before."""
    random = np.random.default_rng(0)

    def samples() -> tuple[Any, Any]:
        return random.normal(size=(30, 4)), random.integers(3, size=30)

    with tempfile.TemporaryDirectory() as folder:
        learner = SklearnLearner(GaussianNB(), classes=3, features=4)
        device = Cause(f"{folder}/device", learner=learner, system="frugal", shards=2, slots=8)
        try:
            device.learn({"bob": samples()})
            upload = files_of(lambda: device.learn({"ann": samples()}))
            erasure = files_of(lambda: device.forget("ann", rounds=[2], count=5))
        finally:
            device.close()
    return upload, erasure


def main() -> None:
    """Print the rows of the table."""
    upload, erasure = walked()
    length, longest = max((len(path.read_text(encoding="utf-8").splitlines()), path) for path in upload | erasure)
    code, docs = map(sum, zip(*(lines_of(path) for path in PACKAGE.rglob("*.py")), strict=True))
    print(f"an upload: {len(upload)} files")
    print(f"an erasure: {len(erasure)} files")
    print(f"the longest of these files: {longest.relative_to(PACKAGE)}, {length} lines")
    print(f"lines of code / of docstrings: {code:,} / {docs:,}")


if __name__ == "__main__":
    main()
