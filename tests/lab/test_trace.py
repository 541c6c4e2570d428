"""Traces: read, written, and every problem named with its line."""

import json

import pytest
from hypothesis import given

from cause.device.device import Cause
from cause.engine.requests import Request
from cause.errors import InputError, TraceError
from cause.lab.trace import Trace, parse_trace, read_trace, write_trace
from cause.learners import CountingLearner
from tests.traces import traces

ADD = '{"round": 1, "add": {"user": "a", "count": 3}}'


@given(traces())
def test_what_is_written_is_read_again(trace: Trace):
    lines = list(trace.lines())
    if lines:
        again = parse_trace(lines, partitions=["given", "by-class"], classes=4)
        last = max(json.loads(line)["round"] for line in lines)
        assert again.rounds == trace.rounds[:last]


def test_the_documented_lines_are_read():
    trace = parse_trace(
        [
            '{"round": 1, "add": {"user": "u7", "count": 31, "labels": {"3": 20, "5": 11}, "shard": 0}}',
            '{"round": 2, "forget": {"user": "u7", "of_round": 1, "count": 5}}',
        ],
        partitions=["given", "by-class"],
    )
    (upload,) = trace.rounds[0].uploads()
    assert upload.labels(range(18, 22)).tolist() == [3, 3, 5, 5]
    assert trace.rounds[1].forgets == [Request("u7", (1,), 5)]
    assert trace.given_shards == 1


def test_labels_are_in_numerical_order():
    trace = parse_trace(['{"round": 1, "add": {"user": "a", "count": 3, "labels": {"10": 1, "9": 2}}}'])
    assert trace.rounds[0].uploads()[0].labels(range(3)).tolist() == [9, 9, 10]


def test_a_second_add_continues_the_positions():
    trace = parse_trace([ADD, '{"round": 1, "add": {"user": "a", "count": 2}}'])
    (upload,) = trace.rounds[0].uploads()
    assert upload.positions == range(5)


def test_rounds_without_lines_are_empty_rounds():
    trace = parse_trace([ADD, '{"round": 4, "add": {"user": "a", "count": 3}}'])
    assert [len(round_.adds) for round_ in trace.rounds] == [1, 0, 0, 1]


def test_blank_lines_are_passed_over():
    assert parse_trace(["", ADD, "  ", ""]).samples == 3


PROBLEMS = [
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("7", "an object with 'round'"),
    ('{"add": {"user": "a", "count": 1}}', "'round' must be a whole number"),
    ('{"round": 0, "add": {"user": "a", "count": 1}}', "'round' must be a whole number from 1"),
    ('{"round": 1.0, "add": {"user": "a", "count": 1}}', "'round' must be a whole number"),
    ('{"round": true, "add": {"user": "a", "count": 1}}', "'round' must be a whole number"),
    ('{"round": 99999999999, "add": {"user": "a", "count": 1}}', "'round' must be a whole number"),
    ('{"round": 1}', "either 'add' or 'forget'"),
    ('{"round": 1, "add": {}, "forget": {}}', "either 'add' or 'forget'"),
    ('{"round": 1, "learn": {}}', "either 'add' or 'forget'"),
    ('{"round": 1, "add": 3}', "'add' must be an object"),
    ('{"round": 1, "add": {"user": "", "count": 1}}', "'user' must be a text"),
    ('{"round": 1, "add": {"user": 7, "count": 1}}', "'user' must be a text"),
    ('{"round": 1, "add": {"count": 1}}', "'user' must be a text"),
    ('{"round": 1, "add": {"user": "b"}}', "'count' must be a whole number"),
    ('{"round": 1, "add": {"user": "b", "count": 0}}', "'count' must be a whole number from 1"),
    ('{"round": 1, "add": {"user": "b", "count": -2}}', "'count' must be a whole number from 1"),
    ('{"round": 1, "add": {"user": "b", "count": 1, "lables": {}}}', "unknown field 'lables'"),
    ('{"round": 1, "add": {"user": "b", "count": 2, "labels": {"0": 1}}}', "'labels' add up to 1, but 'count' is 2"),
    ('{"round": 1, "add": {"user": "b", "count": 1, "labels": {"x": 1}}}', "'labels' must be an object of class"),
    ('{"round": 1, "add": {"user": "b", "count": 1, "labels": [1]}}', "'labels' must be an object of class"),
    ('{"round": 1, "add": {"user": "b", "count": 1, "shard": -1}}', "'shard' must be a whole number from 0"),
    ('{"round": 1, "forget": {"user": "b", "of_round": 1, "count": 1}}', "unknown user 'b': a forget before any add"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 2, "count": 1}}', "before its add"),
    ('{"round": 2, "forget": {"user": "a", "of_round": 2, "count": 1}}', "nothing left of round 2"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 4}}', "has 3 samples left of round 1, not 4"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 0}}', "'count' must be a whole number from 1"),
    ('{"round": 1, "forget": {"user": "a", "count": 1}}', "'count' needs 'of_round'"),
    ('{"round": 1, "forget": {"user": "a", "positions": "1"}}', "'positions' needs 'of_round'"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 1, "positions": "1"}}', "either 'count' or"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": [1]}}', "'positions' must be a text"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": ""}}', "'' is no position or range"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "2,1"}}', "1 after 2"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "2-1"}}', "'2-1' is empty"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "1-3"}}', "has no sample 3 left of round 1"),
    ('{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "0-999999999999"}}', "more than 50,000,000"),
]


@pytest.mark.parametrize(("line", "message"), PROBLEMS)
def test_a_problem_is_one_line_with_its_number(line, message):
    with pytest.raises(TraceError) as refused:
        parse_trace([ADD, line], source="t.jsonl")
    ((number, text),) = refused.value.problems
    assert number == 2
    assert message in text
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("t.jsonl:2: ")
    assert len(text) < 200


def problems(*lines, **kwargs):
    with pytest.raises(TraceError) as refused:
        parse_trace(lines, **kwargs)
    return refused.value.problems


def test_all_problems_of_all_lines_are_listed_at_once():
    listed = problems(
        '{"round": 0, "add": {"user": "", "count": -1, "shard": -1, "labels": {"x": 1}}}',
        "nonsense",
        ADD,
        '{"round": 1, "forget": {"user": "zed"}}',
        b"\xff",
        '{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 9}}',
    )
    assert [number for number, _ in listed] == [1, 1, 1, 1, 1, 2, 4, 5, 6]


def test_each_partition_lists_what_it_needs():
    assert [text for _, text in problems(ADD, partitions=["given", "by-class"])] == [
        "'labels' is needed for the partition by class",
        "'shard' is needed for the partition 'given'",
    ]


def test_a_bad_line_makes_no_good_line_bad():
    wrong = ADD.replace('"count": 3', '"count": 3, "labels": {"1": 1}')
    forget = '{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 1}}'
    assert [number for number, _ in problems(wrong, forget)] == [1]
    far = '{"round": 1000, "add": {"user": "a", "count": 0}}'
    assert [number for number, _ in problems(far, ADD, forget)] == [1]


@pytest.mark.parametrize(
    "line",
    [
        '{"round": 1, "add": {"user": "a", "count": 1}, "add": {"user": "b", "count": 5}}',
        '{"round": 1, "round": 2, "add": {"user": "a", "count": 1}}',
        '{"round": 1, "add": {"user": "a", "count": 1, "labels": {"3": 9, "3": 1}}}',
    ],
)
def test_a_field_given_twice_is_a_problem(line):
    assert "is given twice" in problems(line)[0][1]


def test_messages_are_printable_and_short():
    deep = "[" * 900 + "]" * 900
    for line in (
        deep,
        '{"round": %s, "add": {}}' % ("9" * 5000),
        '{"round": 1, "add": {"user": "\\u009b\\u2028"}}',
        '{"round": 1, "add": {"user": "\\ud800", "count": "x"}}',
        '{"round": 1, "add": {"user": "a", "%s": 1}}' % ("x" * 500),
    ):
        for _, text in problems(line, source="a\nb"):
            assert text.isprintable()
            assert len(text) < 200


def test_order_of_rounds_and_of_adds_and_forgets():
    forget = '{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 1}}'
    with pytest.raises(TraceError, match="out of order: an add of round 1 after its forgets"):
        parse_trace([ADD, forget, ADD])
    with pytest.raises(TraceError, match="out of order: round 1 after round 2"):
        parse_trace([ADD, ADD.replace('"round": 1', '"round": 2'), ADD])


def test_what_was_forgotten_cannot_be_forgotten_again():
    for forget in ('"of_round": 1, "count": 3', '"of_round": 1', ""):
        first = '{"round": 1, "forget": {"user": "a"%s}}' % (forget and ", " + forget)
        for again in ('"of_round": 1, "count": 1', '"of_round": 1', ""):
            second = '{"round": 1, "forget": {"user": "a"%s}}' % (again and ", " + again)
            with pytest.raises(TraceError, match="nothing"):
                parse_trace([ADD, first, second])


def test_partitions_say_what_they_need():
    with pytest.raises(TraceError, match="'shard' is needed"):
        parse_trace([ADD], partitions=["given"])
    with pytest.raises(TraceError, match="'labels' is needed"):
        parse_trace([ADD], partitions=["by-class"])
    with pytest.raises(TraceError, match="label 4, but there are 4 classes"):
        parse_trace(
            ['{"round": 1, "add": {"user": "a", "count": 1, "labels": {"4": 1}}}'], partitions=["by-class"], classes=4
        )


def test_an_empty_trace_is_refused():
    with pytest.raises(TraceError, match="empty"):
        parse_trace([])


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="cannot read the trace"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="UTF-8"):
        read_trace(tmp_path / "bytes")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    trace = parse_trace([ADD])
    write_trace(trace, tmp_path / "new" / "t.jsonl")
    assert read_trace(tmp_path / "new" / "t.jsonl").rounds == trace.rounds
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_trace(trace, tmp_path / "file" / "t.jsonl")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "new", "t.jsonl"]


def test_named_positions_are_written_as_ranges_and_read_again():
    trace = parse_trace([ADD, '{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "0,2"}}'])
    assert trace.rounds[0].forgets == [Request("a", samples=((1, 0), (1, 2)))]
    assert list(trace.lines())[-1] == '{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "0,2"}}'
    trace.rounds[0].forgets[:] = [Request("a", samples=((1, 2), (1, 1), (1, 0)))]
    assert list(trace.lines())[-1] == '{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "0-2"}}'


def test_a_count_takes_the_lowest_that_named_positions_left():
    first = '{"round": 1, "forget": {"user": "a", "of_round": 1, "positions": "0"}}'
    trace = parse_trace([ADD, first, '{"round": 1, "forget": {"user": "a", "of_round": 1, "count": 2}}'])
    device = Cause(learner=CountingLearner(), system="cause", shards=1, slots=2)
    device.learn(trace.rounds[0].uploads())
    assert [result.samples for result in device.serve(trace.rounds[0].forgets)] == [1, 2]
    assert not device.ledger.rounds_of("a")


@pytest.mark.parametrize(
    "request_",
    [
        Request("a", samples=((1, 2), (2, 0))),
        Request("a", rounds=(1, 2)),
        Request("a", handles=("6f1e",)),
    ],
)
def test_what_a_trace_cannot_say_is_refused(request_):
    trace = parse_trace([ADD])
    trace.rounds[0].forgets.append(request_)
    with pytest.raises(InputError, match="a trace can say"):
        list(trace.lines())
