"""A reproduction goes on where it was stopped, and runs nothing twice."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from cause.cli import main
from cause.errors import InputError, LearnerError
from cause.lab.reproduce import cell as cell_
from cause.lab.reproduce import kinds, runner
from cause.lab.reproduce.archive import Archive
from cause.lab.reproduce.cell import Cell, Done
from cause.lab.reproduce.figures import FIGURES
from cause.lab.reproduce.resources import Resources
from cause.lab.reproduce.runner import parse_only, reproduce, rewrite, wanted_cells, write_figure
from tests.lab.reproduce.tiny import TINY
from tests.waiting import wait_until

POLICIES = [FIGURES["policies"]]
RUNS = 30
"""How many runs the figure has: 18 in our reading, 12 in the paper's."""
SMALL = replace(TINY, seeds=1, workload=200)
"""For tests in which any run of a figure will do."""


class Stopped(Exception):
    """Somebody pulled the plug."""


@pytest.fixture
def ran(monkeypatch):
    """The settings of what is run."""
    made = []
    run = kinds.run

    def noted(kind, settings, place):
        made.append(settings)
        return run(kind, settings, place)

    monkeypatch.setattr(kinds, "run", noted)
    return made


def test_what_was_stopped_goes_on_where_it_was(tmp_path, ran):
    def stop(done, number, total):
        raise Stopped

    with pytest.raises(Stopped):
        reproduce(POLICIES, SMALL, Resources(), tmp_path, on_done=stop)
    assert len(ran) == len(list((tmp_path / "cells").iterdir())) == 1
    report = reproduce(POLICIES, SMALL, Resources(), tmp_path)
    assert (report.found, report.ran) == (1, RUNS - 1)
    assert len(ran) == RUNS
    assert reproduce(POLICIES, SMALL, Resources(), tmp_path).ran == 0
    assert len(ran) == RUNS


@pytest.mark.long
def test_a_killed_process_loses_at_most_one_run(tmp_path):
    only = {"slots": ["8"]}
    command = [sys.executable, "-m", "cause", "reproduce", "policies", "--only", "slots=8", "--seeds", "2"]
    command += ["--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: list(tmp_path.glob("cells/*.json")), 60)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = len(list(tmp_path.glob("cells/*.json")))
    assert kept
    report = reproduce(POLICIES, replace(TINY, seeds=2, workload=50_000), Resources(), tmp_path, only=only)
    assert (report.found, report.ran) == (kept, 10 - kept)


ENDLESS = """
    import os, signal, sys
    from pathlib import Path
    from cause.lab.reproduce import runner
    from cause.lab.reproduce.resources import Resources

    def endless(cell, place):
        Path(sys.argv[1], str(os.getpid())).touch()
        signal.pause()

    if __name__ == "__main__":
        runner.run_cell = endless
        list(runner._several([1, 2], Resources(), 2, None))
"""


def test_a_killed_process_leaves_no_worker_running(tmp_path):
    """The processes of a pool would otherwise go on with what they were given, and keep a card busy."""
    (tmp_path / "pool.py").write_text(textwrap.dedent(ENDLESS))
    at_work = tmp_path / "pids"
    at_work.mkdir()
    process = subprocess.Popen([sys.executable, str(tmp_path / "pool.py"), str(at_work)])
    try:
        wait_until(lambda: len(list(at_work.iterdir())) == 2)
    finally:
        process.kill()
        process.wait()
    pids = [int(each.name) for each in at_work.iterdir()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(_lives, pids)), 30)


def test_a_terminated_process_does_not_wait_for_its_runs(tmp_path):
    stoppable = textwrap.dedent(ENDLESS).replace(
        "runner.run_cell = endless",
        "runner.run_cell = endless; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))",
    )
    (tmp_path / "pool.py").write_text(stoppable)
    at_work = tmp_path / "pids"
    at_work.mkdir()
    process = subprocess.Popen([sys.executable, str(tmp_path / "pool.py"), str(at_work)])
    try:
        wait_until(lambda: len(list(at_work.iterdir())) == 2)
        process.terminate()
        assert process.wait(timeout=20) == 143
    finally:
        process.kill()
        process.wait()
    pids = [int(each.name) for each in at_work.iterdir()]
    wait_until(lambda: not any(map(_lives, pids)), 30)


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_another_setting_is_another_run(tmp_path, ran):
    only = {"slots": ["8"], "system": ["cause:policy=fifo"]}
    assert reproduce(POLICIES, TINY, Resources(), tmp_path, only=only).ran == 1
    assert reproduce(POLICIES, replace(TINY, seeds=3), Resources(), tmp_path, only=only).ran == 1
    assert [settings["seeds"] for settings in ran] == [2, 3]
    settings = {"system": "cause", "share": 0.5, "epochs": 3, "device": "cpu", "recipe": "paper", "seed": 0}
    key = Cell("train", settings).key
    for changed in ({"share": 0.4}, {"epochs": 4}, {"device": "cuda"}, {"recipe": "ours"}, {"seed": 1}):
        assert Cell("train", {**settings, **changed}).key != key
    assert Cell("curve", settings).key != key


def test_results_of_earlier_calls_stay(tmp_path):
    only = {"slots": ["8"]}
    reproduce(POLICIES, SMALL, Resources(), tmp_path, only={**only, "system": ["cause:policy=fifo"]})
    report = reproduce(POLICIES, SMALL, Resources(), tmp_path, only={**only, "system": ["cause:policy=cost"]})
    assert [row[0] for row in report.results["policies"]["rows"]] == ["fifo", "cost"]


def test_results_alone_are_enough_to_go_on_from(tmp_path):
    reproduce(POLICIES, SMALL, Resources(), tmp_path)
    for path in (tmp_path / "cells").iterdir():
        path.unlink()
    assert reproduce(POLICIES, SMALL, Resources(), tmp_path).ran == 0


def test_a_damaged_run_is_made_again(tmp_path):
    archive, cell = Archive(tmp_path), Cell("control", {"shards": 4})
    archive.add(Done(cell, {"active": [4]}, 0.1, {}))
    assert cell in Archive(tmp_path)
    (path,) = (tmp_path / "cells").iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert cell not in Archive(tmp_path)


def test_several_processes_give_the_same(tmp_path):
    only = {"slots": ["8"]}
    reproduce(POLICIES, SMALL, Resources(), tmp_path / "one", only=only)
    reproduce(POLICIES, SMALL, Resources(workers=2), tmp_path / "two", only=only)
    one, two = (json.loads((tmp_path / n / "policies.json").read_text())["result"] for n in ("one", "two"))
    assert one["summary"] == two["summary"]


@pytest.mark.long  # test_several_processes_give_the_same and test_a_run_that_fails_is_told_when… are the quick ones
def test_trainings_at_once_learn_the_same_also_beside_one_that_fails():
    cells = [c for c in FIGURES["controller"].cells(TINY) if c.kind == "train" and c.settings["shards"] == 2]
    bad, done = Cell("train", {**cells[0].settings, "system": "nobody"}), {}

    def run_all():
        for each in runner._several([bad, *cells], Resources(), 2, None):
            done[each.cell.key] = each.result

    with pytest.raises(InputError, match="nobody"):
        run_all()
    alone = {cell.key: runner.run_cell(cell, Resources()).result for cell in cells}
    assert set(done) == set(alone)
    for name in ("accuracy", "accuracy_of_heads", "samples_visited", "head_bytes", "replayed"):
        assert all(done[key][name] == result[name] for key, result in alone.items())


def test_what_is_measured_runs_alone(tmp_path, monkeypatch):
    together, here = [], []

    def several(cells, place, at_once, until):
        together.extend(cells)
        return iter(())

    def one_by_one(cells, place, until):
        here.extend(cells)
        return iter(())

    monkeypatch.setattr(runner, "_several", several)
    monkeypatch.setattr(runner, "_one_by_one", one_by_one)
    figures = [FIGURES[name] for name in ("linearity", "forgetting", "epochs", "pruning")]
    reproduce(figures, TINY, Resources(together=2), tmp_path)
    assert {cell.kind for cell in together} == {"curve", "prune"}
    assert {cell.kind for cell in here} == {"cost", "train"}
    assert all(cell.settings["rho"] > 0 for cell in here if cell.kind == "train")


@pytest.mark.long  # test_two_workers_give_the_bits_and_the_memory_of_none is the quick one
def test_shards_in_worker_processes_learn_the_same(tmp_path):
    only = {"system": ["cause-no-sc"], "shards": ["2"]}
    for name, workers in (("one", 1), ("two", 2)):
        reproduce([FIGURES["controller"]], TINY, Resources(workers=workers), tmp_path / name, only=only)
    one, two = (
        next(cell["result"] for cell in json.loads((tmp_path / n / "controller.json").read_text())["result"]["cells"]
             if cell["kind"] == "train")
        for n in ("one", "two")
    )  # fmt: skip
    assert (one["workers"], two["workers"]) == (1, 2)
    for name in ("accuracy", "accuracy_of_heads", "samples_visited", "head_bytes", "replayed"):
        assert one[name] == two[name]
    assert one["samples_visited"] == one["samples"]  # one epoch


def test_only_some_runs_are_made_and_those_without_the_setting_stay():
    cells = wanted_cells(FIGURES["controller"], TINY, {})
    only = parse_only(["system=cause", "shards=2", "shards=4"], cells)
    chosen = wanted_cells(FIGURES["controller"], TINY, only)
    assert [(c.kind, c.settings["shards"]) for c in chosen] == [("train", 2), ("count", 2), ("count", 4)]
    by_data = wanted_cells(FIGURES["controller"], TINY, {"dataset": ["digits"]})
    assert len(by_data) == len(cells)  # simulations know no data set
    by_kind = wanted_cells(FIGURES["controller"], TINY, parse_only(["kind=train"], cells))
    assert {c.kind for c in by_kind} == {"train"}


def test_when_time_is_up_nothing_more_is_begun(tmp_path):
    report = reproduce(POLICIES, SMALL, Resources(), tmp_path, minutes=0)
    assert (report.ran, report.left, report.results) == (0, RUNS, {})


def test_nothing_begins_without_its_data(tmp_path, monkeypatch, ran):
    monkeypatch.delenv("CAUSE_DATA", raising=False)
    with pytest.raises(InputError, match="--data: where is cifar10"):
        reproduce([FIGURES["controller"]], replace(TINY, datasets=None), Resources(), tmp_path)
    assert ran == []


def test_the_command_tells_what_it_did(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "sc-function", "--json", "--out", str(tmp_path)])
    result = json.loads(capsys.readouterr().out)
    assert (ended.value.code, result["ran"]) == (0, 10)
    assert result["results"]["sc-function"]["claims"][0]["ours"] == "3 3 2 2 2 2 2 2 2 2"
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--report", "--out", str(tmp_path)])
    assert ended.value.code == 0
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "say what to make: all, or some of linearity"),
        (["sharts"], "unknown table or figure 'sharts' (did you mean 'shards'?)"),
        (["all", "--quick", "--full"], "give one of --quick, --reduced and --full"),
        (["shards", "--full"], "--data: where is cifar10?"),
        (["shards", "--data", "nowhere"], "--data: 'nowhere' is not a folder"),
        (["shards", "--share", "0"], "--share is a part of the samples"),
        (["shards", "--epochs", "0"], "--epochs must be at least 1"),
        (["policies", "--seeds", "0"], "the number of seeds must be from 1"),
        (["policies", "--workers", "0"], "--workers must be from 1"),
        (["shards", "--recipe", "mine"], "unknown recipe 'mine'"),
        (["shards", "--device", "tpu"], "unknown device 'tpu'"),
        (["shards", "--only", "colour=red"], "unknown setting in --only 'colour'"),
        (["shards", "--only", "shards=3"], "--only leaves nothing to run"),
        (["all", "--report"], "--report: there are no results"),
        (["sc-function", "--minutes", "nan"], "--minutes must be 0 or more, not nan"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, args, message):
    monkeypatch.delenv("CAUSE_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *args, "--out", str(tmp_path / "results")])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("results/*"))


def test_runs_of_two_folders_make_one_figure(tmp_path, ran):
    one, other = tmp_path / "one", tmp_path / "other"
    reproduce(POLICIES, SMALL, Resources(), one, only={"slots": ["8"]})
    reproduce(POLICIES, SMALL, Resources(), other, only={"slots": ["16"]})
    made = len(ran)
    assert len(Archive(one).of_result("policies")) < made
    report = rewrite(POLICIES, one, [other])
    assert len(ran) == made == len(Archive(one).of_result("policies"))
    assert len(report.results["policies"]["rows"]) > 0
    with pytest.raises(InputError, match="--take: there are no such results in"):
        rewrite(POLICIES, one, [tmp_path])


def test_what_another_call_added_meanwhile_stays(tmp_path):
    """Two processes with the same folder: the one that ends last must not undo the other's result."""
    ended = []

    def meanwhile(done, number, total):
        if not ended:
            ended.append(reproduce(POLICIES, SMALL, Resources(), tmp_path, only={"slots": ["16"]}))

    reproduce(POLICIES, SMALL, Resources(), tmp_path, only={"slots": ["8"]}, on_done=meanwhile)
    assert {done["slots"] for done in Archive(tmp_path).of_result("policies")} == {8, 16}


def test_a_result_is_not_changed_by_two_at_once(tmp_path):
    """One that is about to write waits for another's end, and adds to what that one wrote."""
    other = tmp_path / "other"
    reproduce(POLICIES, SMALL, Resources(), other, only={"slots": ["16"]})
    reproduce(POLICIES, SMALL, Resources(), tmp_path, only={"slots": ["8"]})
    archive, needed = Archive(tmp_path), wanted_cells(POLICIES[0], SMALL, {"slots": ["8"]})
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        waiting = threading.Thread(target=write_figure, args=(POLICIES[0], archive, needed))
        waiting.start()
        waiting.join(timeout=0.5)
        (tmp_path / "policies.json").write_bytes((other / "policies.json").read_bytes())
    finally:
        os.close(folder)
    waiting.join(timeout=60)
    assert {done["slots"] for done in Archive(tmp_path).of_result("policies")} == {8, 16}


def test_runs_of_an_older_format_are_made_again(tmp_path, monkeypatch):
    assert reproduce(POLICIES, SMALL, Resources(), tmp_path, only={"slots": ["8"]}).ran == 10
    monkeypatch.setitem(cell_.FORMATS, "count", cell_.FORMATS["count"] + 1)
    report = reproduce(POLICIES, SMALL, Resources(), tmp_path, only={"slots": ["8"]})
    assert (report.found, report.ran) == (0, 10)
    assert len(Archive(tmp_path).of_result("policies")) == 10  # without the older ones


def test_runs_without_a_format_are_of_the_one_before_it_was_written_down(tmp_path, monkeypatch):
    settings = {"shards": 4, "p": 0.5, "gamma": 0.5, "rounds": 2}
    result = {"kind": "control", "settings": settings, "seconds": 0.1, "result": {"active": [3, 3]}, "source": {}}
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "old.json").write_text(json.dumps(result))
    assert Cell("control", settings) in Archive(tmp_path)
    monkeypatch.setattr(cell_, "FORMAT", 3)
    assert Cell("control", settings) not in Archive(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "[" * 100_000, '{"result": 5}', '{"result": {"cells": 1, "sources": {}}}',
        '{"result": {"cells": [{}], "sources": []}}', '{"result": {"cells": [[]], "sources": [[]]}}',
        '{"result": {"cells": [{"source": 1, "kind": "count"}], "sources": [{}]}}',
        '{"kind": "train", "settings": [], "seconds": 1, "result": 3, "source": null}',
        '{"result": {"title": "", "where": "", "says": "", "sources": []}}',
    ],
)  # fmt: skip
def test_damaged_files_in_the_folder_do_not_keep_others_from_their_results(tmp_path, content):
    for path in (tmp_path / "shards.json", tmp_path / "cells" / "train-0.json", tmp_path / "sc-function.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    report = reproduce([FIGURES["sc-function"]], TINY, Resources(), tmp_path)
    assert report.ran == 10
    page = report.page.read_text()
    assert "`shards.json` is damaged and left out: `cause reproduce shards` makes it anew." in page
    assert "`sc-function.json`" not in page


def test_a_failed_run_is_raised_after_the_results_of_the_others_are_written(tmp_path, monkeypatch):
    run = kinds.run

    def failing(kind, settings, place):
        if settings["slots"] == 8 and settings["system"] == "cause:policy=fifo":
            raise LearnerError("it broke")
        return run(kind, settings, place)

    monkeypatch.setattr(kinds, "run", failing)
    figures = [FIGURES["policies"], FIGURES["rsn-rounds"]]
    with pytest.raises(LearnerError, match="it broke"):
        reproduce(figures, SMALL, Resources(), tmp_path)
    assert [len(Archive(tmp_path).of_result(figure.name)) for figure in figures] == [RUNS - 1, 11]
    assert (tmp_path / "RESULTS.md").exists()


def test_a_result_without_a_picture_is_made(tmp_path):
    """Costs alone, without simulations to multiply them with."""
    result = {"points": [[n, n, n] for n in (1, 2, 3)], "unavailable": None}
    cell, archive = TINY.cost("mobilenetv2", "none"), Archive(tmp_path)
    archive.add(Done(cell, result, 0.1, {"date": "2026-01-01", "machine": {}}))
    assert write_figure(FIGURES["energy-shards"], archive, [cell])["claims"] == []


def test_settings_of_different_figures_choose_among_their_own_runs():
    cells = [cell for name in ("policies", "sc-function") for cell in wanted_cells(FIGURES[name], TINY, {})]
    only = parse_only(["slots=8", "p=0.25"], cells)
    chosen = [cell for name in ("policies", "sc-function") for cell in wanted_cells(FIGURES[name], TINY, only)]
    assert {cell.kind for cell in chosen} == {"count", "control"}
    with pytest.raises(InputError, match="--only leaves nothing to run"):
        parse_only(["slots=8", "p=0.26"], cells)


def both_begin(cell, resources):
    """Return once two runs have begun."""
    cell.touch()
    wait_until(lambda: len(list(cell.parent.iterdir())) >= 2)
    return cell


def test_when_time_is_up_those_under_way_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_cell", both_begin)
    cells = [tmp_path / str(number) for number in range(5)]
    with monkeypatch.context() as patched:
        patched.setattr(runner, "_is_over", lambda until: len(list(tmp_path.iterdir())) >= 2)
        kept: list[Any] = list(runner._several(cells, Resources(), 2, None))
    assert sorted(kept) == sorted(tmp_path.iterdir()) == cells[:2]
    assert list(runner._several(cells[2:], Resources(), 2, time.monotonic() - 1)) == []
    assert sorted(tmp_path.iterdir()) == cells[:2]


def killed(cell, resources):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_ended_from_outside_is_one_line(monkeypatch):
    monkeypatch.setattr(runner, "run_cell", killed)
    with pytest.raises(LearnerError, match="one of 2 processes was ended from outside"):
        list(runner._several([1, 2, 3], Resources(), 2, None))  # type: ignore[list-item]


def test_what_has_ended_is_shown_without_data_or_device(tmp_path, monkeypatch):
    """After a kill, `--minutes 0` makes the results of what there is."""
    monkeypatch.delenv("CAUSE_DATA", raising=False)
    size = replace(TINY, datasets=None, device="cuda")
    report = reproduce([FIGURES["controller"]], size, Resources(device="cuda"), tmp_path, minutes=0)
    assert (report.ran, report.left) == (0, len(wanted_cells(FIGURES["controller"], size, {})))
