"""The command line: what it prints, what it refuses, and that everything is documented."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from cause.cli import main
from cause.cli.commands import COMMANDS


def cause(capsys, *args):
    """Run a command in this process: exit code, standard output, error output."""
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"round": 1, "add": {"user": "a", "count": 30, "labels": {"0": 30}, "shard": 0}}\n'
        '{"round": 1, "add": {"user": "b", "count": 20, "labels": {"7": 20}, "shard": 1}}\n'
        '{"round": 2, "add": {"user": "a", "count": 10, "labels": {"1": 10}, "shard": 0}}\n'
        '{"round": 2, "forget": {"user": "a", "of_round": 1, "count": 5}}\n'
    )
    return path


def test_simulate_prints_exactly_the_documented_object(capsys, trace):
    code, out, err = cause(capsys, "simulate", "--trace", trace, "--system", "cause", "--partition", "given", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "system": "cause",
        "rsn": 35,
        "rsn_per_round": [0, 35],
        "requests": 1,
        "replays": 1,
        "floor_rsn": 35,
        "stored": [[0, 1], [0, 2], [1, 1]],
    }


def test_simulate_takes_every_documented_option(capsys):
    code, out, _ = cause(
        capsys, "simulate", "--system", "sisa", "--policy", "cost", "--requests", "coalesced", "--memory", "2GB",
        "--submodel-size", "30MB", "--shards", 4, "--users", 8, "--rounds", 3, "--rho", 0.5, "--classes", 4,
        "--slices", 2, "--rehearsal", 0.5, "--seed", 3, "--json",
    )  # fmt: skip
    assert code == 0
    assert {len(key) for key in json.loads(out)["stored"]} == {3}


def test_a_drawn_workload_and_its_written_trace_give_the_same(capsys, tmp_path):
    path = tmp_path / "w.jsonl"
    drawn = ["--users", 20, "--rounds", 4, "--samples", 2000, "--seed", 2]
    assert cause(capsys, "workload", *drawn, "--out", path)[0] == 0
    _, from_file, _ = cause(capsys, "simulate", "--trace", path, "--seed", 2, "--json")
    _, from_draw, _ = cause(capsys, "simulate", *drawn, "--json")
    assert json.loads(from_file) == json.loads(from_draw)


def test_workload_on_standard_output_is_the_same_trace(capsys, tmp_path):
    path = tmp_path / "w.jsonl"
    cause(capsys, "workload", "--users", 5, "--rounds", 2, "--samples", 50, "--out", path)
    _, out, _ = cause(capsys, "workload", "--users", 5, "--rounds", 2, "--samples", 50)
    assert out == path.read_text()


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "--users", "5", "--rounds", "2", "--samples", "50"],
        ["compare", "cause", "sisa", "--users", "5", "--rounds", "2", "--samples", "50", "--seeds", "2", "--jobs", "1"],
        ["balance", "--seeds", "1", "--users", "40"],
        ["systems"],
        ["doctor"],
    ],
    ids=lambda command: command[0],
)
def test_every_report_is_a_table_or_json(capsys, command):
    code, out, _ = cause(capsys, *command, "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)
    code, out, _ = cause(capsys, *command)
    assert code == 0
    assert len(out.splitlines()) > 3


def test_compare_sweeps_and_writes_what_it_found(capsys, tmp_path):
    code, out, _ = cause(
        capsys, "compare", "cause", "cause:requests=coalesced", "--sweep", "shards=1,2", "--seeds", 2, "--users", 6,
        "--rounds", 3, "--samples", 200, "--out", tmp_path / "r.json", "--plot", tmp_path / "r.png", "--json",
        "--jobs", 2,
    )  # fmt: skip
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [(row["system"], row["at"]) for row in rows] == [
        ("cause", 1), ("cause:requests=coalesced", 1), ("cause", 2), ("cause:requests=coalesced", 2)
    ]  # fmt: skip
    written = json.loads((tmp_path / "r.json").read_text())
    assert set(written) == {"command", "commit", "date", "machine", "result"}
    assert written["result"]["rows"] == rows
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_compare_on_a_trace(capsys, trace):
    code, out, _ = cause(capsys, "compare", "cause:partition=given", "arcane", "--trace", trace, "--seeds", 1, "--json")
    assert code == 0
    assert [row["rsn"]["value"] for row in json.loads(out)["rows"]] == [35, 35]


REFUSED = [
    (["simulate", "--system", "caus"], "unknown system 'caus' (did you mean 'cause'?)"),
    (["simulate", "--policy", "lru"], "unknown policy 'lru': one of adaptive, cost, fibor"),
    (["simulate", "--partition", "none"], "unknown partition 'none': one of balanced"),
    (["simulate", "--partition", "given"], "needs a --trace"),
    (["simulate", "--requests", "never"], "unknown requests 'never'"),
    (["simulate", "--backbone", "vgg"], "unknown backbone 'vgg' (did you mean 'vgg16'?)"),
    (["simulate", "--shards", "0"], "number of shards must be from 1"),
    (["simulate", "--shards", "-4"], "number of shards must be from 1"),
    (["simulate", "--shards", "x"], "--shards"),
    (["simulate", "--slots", "0"], "number of slots must be at least 1"),
    (["simulate", "--slots", "2"], "heads of 3 shards need"),
    (["simulate", "--system", "sisa", "--memory", "100MB"], "holds 1 sub-models of 85.82 MB"),
    (["simulate", "--memory", "big"], "not a size: 'big'"),
    (["simulate", "--submodel-size", "0"], "a size must be at least one byte"),
    (["simulate", "--memory", "1GB", "--slots", "9"], "either --memory or --slots"),
    (["simulate", "--rho", "2"], "ρ is a probability"),
    (["simulate", "--users", "0"], "number of users must be from 1"),
    (["simulate", "--rounds", "-1"], "number of rounds must be from 1"),
    (["simulate", "--samples", "0"], "number of samples must be from 1"),
    (["simulate", "--classes", "0"], "number of classes must be from 1"),
    (["simulate", "--alpha", "0"], "α must be above 0"),
    (["simulate", "--slices", "0"], "number of slices must be from 1"),
    (["simulate", "--rehearsal", "-1"], "rehearsal must be from 0"),
    (["simulate", "--seed", "-1"], "seed must not be negative"),
    (["simulate", "--trace", "/none.jsonl"], "cannot read the trace"),
    (["simulate", "--ages", "recent:0"], "the factor of recent ages must be above 0 and at most 1, not 0.0"),
    (["workload", "--ages", "recent:1.5"], "the factor of recent ages must be above 0 and at most 1, not 1.5"),
    (["compare", "--ages", "newest"], "ages are 'uniform', 'current', 'recent:FACTOR'"),
    (["compare", "--sweep", "ages=current", "--ages", "uniform"], "ages is swept"),
    (["simulate", "--ages", "trace:/none.jsonl"], "cannot read the trace"),
    (["simulate", "--ages", "trace:"], "needs the file of a trace"),
    (["simulate", "--scope", "week"], "unknown scope 'week'"),
    (["simulate", "--scope", "user", "--ages", "recent:0.5"], "choose nothing"),
    (["simulate", "--trace", "/none.jsonl", "--scope", "user"], "--scope draws a workload, but --trace was given"),
    (["ablate", "--arrivals", "once"], "unknown arrivals 'once'"),
    (["simulate", "--labels", "iid", "--alpha", "0.5"], "--alpha shapes the labels"),
    (["reproduce", "sc-function", "--ages", "recent:7"], "the factor of recent ages"),
    (["simulate", "--trace", "/none.jsonl", "--users", "4"], "--users draws a workload, but --trace was given"),
    (["compare", "nobody"], "unknown system 'nobody'"),
    (["compare", "--seeds", "0"], "number of seeds must be from 1"),
    (["compare", "--sweep", "color=red"], "unknown sweep 'color': one of ages, memory, rho, shards, slots"),
    (["compare", "--sweep", "shards=a"], "a sweep of shards takes int values"),
    (["compare", "--sweep", "shards="], "a sweep needs values"),
    (["compare", "--sweep", "slots=1"], "heads of 3 shards need"),
    (["compare", "--sweep", "rho=7"], "ρ is a probability"),
    (["compare", "--jobs", "0"], "number of processes must be from 1"),
    (["compare", "--plot", "x.txt"], "a plot is a .png"),
    (["compare", "--out", "/dev/null/x.json"], "is not a directory"),
    (["compare", "--plot", "same.png", "--out", "same.png"], "name the same file"),
    (["compare", "--out", "x" * 300], "cannot write"),
    (["compare", "--sweep", ""], "unknown sweep"),
    (["compare", "--sweep", "rho=0.1", "--rho", "0"], "rho is swept"),
    (["compare", "--sweep", "shards=1,2", "--shards", "4"], "shards is swept"),
    (["compare", "--jobs", "100000"], "number of processes must be from 1"),
    (["ablate", "--shards", "16"], "at most 8 shards, not 16"),
    (["simulate", "--memory", ""], "not a size"),
    (["simulate", "--system", "cause:gamma=nan"], "γ must be from 0 to 1"),
    (["simulate", "--system", "cause:gamma=7"], "γ must be from 0 to 1"),
    (["simulate", "--system", "cause:policy=cost,policy=fifo"], "policy is given twice"),
    (["simulate", "--classes", "1180591620717411303424"], "number of classes must be from 1"),
    (["simulate", "--alpha", "1e308"], "α must be above 0 and at most"),
    (["simulate", "--users", "10000000"], "more than can be drawn"),
    (["balance", "--users", "100000"], "32 to 2,000 users"),
    (["balance", "--users", "10"], "32 to 2,000 users"),
    (["workload", "--json"], "give --out too"),
    (["workload", "--out", "/"], "it is a directory"),
    (["nothing"], "No such command"),
    (["simulate", "--no-such-option"], "No such option"),
]


@pytest.mark.parametrize(("args", "message"), REFUSED, ids=[" ".join(args) for args, _ in REFUSED])
def test_bad_input_is_one_line_and_exit_code_2(capsys, args, message):
    code, out, err = cause(capsys, *args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_bad_trace_lists_every_problem_and_writes_nothing(capsys, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"round": 1, "add": {"user": 1}}\nnonsense\n{"round": 1, "forget": {"user": "b"}}\n')
    code, out, err = cause(capsys, "compare", "--trace", path, "--out", tmp_path / "r.json")
    assert (code, out) == (2, "")
    assert [line.rpartition("bad.jsonl:")[2].partition(":")[0] for line in err.splitlines()] == list("11123")
    assert not (tmp_path / "r.json").exists()


def test_help_starts_without_the_heavy_packages():
    code = (
        "import sys; from cause.cli.commands import COMMANDS; list(COMMANDS.values());"
        "print([m for m in ('numpy', 'torch', 'matplotlib') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_installed_command_runs():
    done = subprocess.run([sys.executable, "-c", "from cause.cli import main; main()", "--version"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("cause ")


def test_ctrl_c_while_the_command_is_being_imported_is_one_line():
    code = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in a job in the background

class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
from cause.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: stopped\n")


def test_every_command_has_help_and_every_option_too():
    for name, command in COMMANDS.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def run(*args, **kwargs):
    command = [sys.executable, "-c", "from cause.cli import main; main()", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


SMALL = ["--users", "5", "--rounds", "2", "--samples", "50"]


def test_giant_uploads_are_fine_whole_and_refused_one_by_one(capsys, tmp_path):
    path = tmp_path / "giant.jsonl"
    forget = '{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 3}}\n'
    path.write_text(
        '{"round": 1, "add": {"user": "a", "count": 1000000000000, "labels": {"1": 1000000000000}}}\n' + forget * 2
    )
    assert cause(capsys, "simulate", "--trace", path, "--json")[0] == 0
    for option in (["--system", "sisa"], ["--system", "arcane"], ["--slices", "2"], ["--rehearsal", "0.5"]):
        code, _, err = cause(capsys, "simulate", "--trace", path, *option)
        assert code == 2
        assert "too many to be handled one by one" in err


def test_what_is_swept_twice_is_run_once(capsys):
    _, out, _ = cause(
        capsys, "compare", "cause", *SMALL, "--seeds", 2, "--sweep", "rho=0.3,0.30", "--json", "--jobs", 1
    )
    (row,) = json.loads(out)["rows"]
    assert len(row["rsn_by_seed"]) == 2


def test_given_cannot_be_swept_over_shards(capsys, trace):
    code, _, err = cause(capsys, "compare", "sisa:partition=given", "--trace", trace, "--sweep", "shards=1,16")
    assert code == 2
    assert "from the trace" in err


@pytest.fixture
def small_workload(monkeypatch):
    """The paper's workload with a hundredth of its samples, for a command that takes no other."""
    from cause.cli import options

    drawn_of = options.drawn_of
    monkeypatch.setattr(options, "drawn_of", lambda *a, **k: replace(drawn_of(*a, **k), samples=500, users=10))


def test_an_ablation_is_json(capsys, small_workload):
    code, out, _ = cause(capsys, "ablate", "--seeds", 1, "--jobs", 1, "--rho", 0.02, "--json")
    assert code == 0
    assert json.loads(out)["rows"]


def test_no_request_at_all_is_shown_without_a_ratio(capsys, tmp_path, small_workload):
    code, out, _ = cause(capsys, "ablate", "--rho", 0, "--seeds", 1, "--jobs", 1, "--plot", tmp_path / "a.png")
    assert code == 0
    assert len(out.splitlines()) > 3
    assert "–" in out
    code, _, _ = cause(
        capsys, "compare", "cause", *SMALL, "--sweep", "rho=0", "--seeds", 1, "--plot", tmp_path / "c.png"
    )
    assert code == 0


def test_a_refused_command_leaves_nothing_behind(capsys, tmp_path):
    assert cause(capsys, "compare", "nosuch", "--out", tmp_path / "new" / "deep" / "x.json")[0] == 2
    assert cause(capsys, "workload", "--users", "-1", "--out", tmp_path / "new2" / "x")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_links_are_followed_and_a_neighbour_is_left_alone(capsys, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "link.part").write_text("mine")
    assert cause(capsys, "workload", *SMALL, "--out", tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text().startswith("{")
    assert (tmp_path / "link.part").read_text() == "mine"


def test_an_output_that_cannot_be_written_is_an_error_of_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", "from cause.cli import main; main()", "systems"],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def test_a_terminal_that_knows_no_greek_gets_question_marks():
    import os

    done = run("simulate", *SMALL, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0


def test_a_reader_that_leaves_early_is_no_error_worth_a_traceback():
    command = f"{sys.executable} -c 'from cause.cli import main; main()' workload | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_no_arguments_show_the_help(capsys):
    code, out, err = cause(capsys)
    assert (code, err) == (0, "")
    assert "simulate" in out
