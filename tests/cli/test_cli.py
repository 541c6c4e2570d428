"""The command line: what it prints, what it refuses, and that everything is documented."""

import json
import subprocess
import sys

import pytest

from cause.cli import main
from cause.cli.app import app


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
        ["ablate", "--seeds", "1", "--jobs", "1"],
        ["balance", "--seeds", "1", "--users", "20"],
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
    (["simulate", "--policy", "lru"], "unknown policy 'lru': one of cost, fibor, fifo"),
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
    (["simulate", "--trace", "/none.jsonl", "--users", "4"], "--users draws a workload, but --trace was given"),
    (["compare", "nobody"], "unknown system 'nobody'"),
    (["compare", "--seeds", "0"], "number of seeds must be from 1"),
    (["compare", "--sweep", "color=red"], "unknown sweep 'color': one of memory, rho, shards, slots"),
    (["compare", "--sweep", "shards=a"], "a sweep of shards takes int values"),
    (["compare", "--sweep", "shards="], "a sweep needs values"),
    (["compare", "--sweep", "slots=1"], "heads of 3 shards need"),
    (["compare", "--sweep", "rho=7"], "ρ is a probability"),
    (["compare", "--jobs", "0"], "at least one process"),
    (["compare", "--plot", "x.txt"], "a plot is a .png"),
    (["compare", "--out", "/proc/none/x.json"], "cannot write"),
    (["balance", "--users", "10"], "more users than shards"),
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
    path.write_text('{"round": 1, "add": {"user": "a"}}\nnonsense\n{"round": 1, "forget": {"user": "b"}}\n')
    code, out, err = cause(capsys, "compare", "--trace", path, "--out", tmp_path / "r.json")
    assert (code, out) == (2, "")
    assert [line.rpartition("bad.jsonl:")[2].partition(":")[0] for line in err.splitlines()] == ["1", "2", "3"]
    assert not (tmp_path / "r.json").exists()


def test_help_starts_without_the_heavy_packages():
    code = "import sys, cause.cli.app as a; print([m for m in ('numpy', 'torch', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_installed_command_runs():
    done = subprocess.run([sys.executable, "-c", "from cause.cli import main; main()", "--version"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("cause ")


def test_every_command_has_help_and_every_option_too():
    import typer

    for name, command in typer.main.get_command(app).commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"
