"""The processes that run this suite: every test is reported once, also of a process that dies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
FILES = {
    "test_good.py": """
        import pytest

        @pytest.fixture(scope="session")
        def once(tmp_path_factory):
            folder = tmp_path_factory.mktemp("once")
            yield folder
            (folder.parents[2] / f"torn-down-{folder.parent.name}").touch()

        def test_one(once): print("printed by a good test")
        def test_two(once): assert once.exists()
        @pytest.mark.skip(reason="not here")
        def test_three(): pass
    """,
    "test_bad.py": """
        def test_wrong(): print("said before"); assert 1 == 2
        def test_right(): pass
    """,
    "test_deadly.py": """
        import os
        def test_before(): pass
        def test_deadly(): os._exit(3)
        def test_after(): pass
    """,
}


def run(folder, *options):
    for name, text in FILES.items():
        (folder / name).write_text("\n".join(line[8:] for line in text.splitlines()))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", folder, "-p", "tests.forked_workers"]
    command += ["-p", "no:cacheprovider", "--basetemp", folder / "temporary", *options, folder]
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)


def test_every_test_is_reported_once(tmp_path):
    done = run(tmp_path, "--workers", 2, "-rs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"3 failed, 4 passed, 1 skipped", done.stdout), done.stdout
    assert "assert 1 == 2" in done.stdout
    assert "said before" in done.stdout
    assert "printed by a good test" not in done.stdout
    assert done.stdout.count("its process died") == 2
    assert "not here" in done.stdout
    assert len(list(tmp_path.glob("torn-down-worker-*"))) == 1


def test_the_first_failure_ends_the_run_if_asked_for(tmp_path):
    done = run(tmp_path, "--workers", 2, "-x")
    assert done.returncode in (1, 2)
    assert re.search(r"stopping after \d failures", done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="processes end with their parent on Linux only")
def test_no_process_goes_on_after_the_run_was_killed(tmp_path):
    text = f"""
        import os, signal
        from pathlib import Path
        def test_endless():
            Path({str(tmp_path)!r}, "pid").write_text(str(os.getpid()))
            while True: signal.pause()
    """
    (tmp_path / "test_endless.py").write_text("\n".join(line[8:] for line in text.splitlines()))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", tmp_path, "-p", "tests.forked_workers"]
    command += ["-p", "no:cacheprovider", "--basetemp", tmp_path / "temporary", "--workers", "2", tmp_path]
    with subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL) as running:
        try:
            worker = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        finally:
            running.kill()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), 10)
