"""Whether NVIDIA's MPS daemon is seen, and users are warned of workers that take turns on a GPU."""

import pytest

from cause.common import gpu_sharing
from cause.common.gpu_sharing import PID_FILE, mps_daemon_runs, turns_note


def environment(folder, pid=None):
    if pid is not None:
        (folder / PID_FILE).write_text(f"{pid}\n")
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder)}


def processes(folder, pid, name):
    (folder / str(pid)).mkdir(parents=True)
    (folder / str(pid) / "comm").write_text(name + "\n")
    return folder


def test_a_running_daemon_is_seen(tmp_path):
    running = processes(tmp_path / "proc", 7, "nvidia-cuda-mps")  # the kernel cuts names at 15 characters
    assert mps_daemon_runs(environment(tmp_path, 7), running)


@pytest.mark.parametrize("name", ["python3", "bash"])
def test_files_of_a_daemon_that_ended_are_not_taken_for_one(tmp_path, name):
    assert not mps_daemon_runs(environment(tmp_path, 7), processes(tmp_path / "proc", 7, name))
    assert not mps_daemon_runs(environment(tmp_path, 8), tmp_path / "proc")


def test_no_daemon_is_seen_without_its_files(tmp_path):
    assert not mps_daemon_runs(environment(tmp_path), tmp_path)
    assert not mps_daemon_runs(environment(tmp_path, "not a number"), tmp_path)


def test_workers_that_take_turns_on_a_gpu_are_noted(monkeypatch):
    monkeypatch.setattr(gpu_sharing, "mps_daemon_runs", lambda: False)
    assert "nvidia-cuda-mps-control -d" in turns_note("cuda", 4)
    assert turns_note("cuda", 1) is None
    assert turns_note("cpu", 4) is None


def test_workers_beside_a_daemon_are_not_noted(monkeypatch):
    monkeypatch.setattr(gpu_sharing, "mps_daemon_runs", lambda: True)
    assert turns_note("cuda", 4) is None
