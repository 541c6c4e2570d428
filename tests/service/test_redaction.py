"""No log names a user, and no answer does to a token that may not know them, whatever goes wrong."""

import io
import json
import logging
import sys
import threading
from functools import partial

import pytest

from cause.errors import HomeError, InputError, LearnerError, RequestError
from cause.service import server
from cause.service.schemas import Problem
from tests.service.services import Running, rows
from tests.service.test_access import routes
from tests.waiting import wait_until

NAME = "Zebedee-Quux-71"
TEXT = f"unknown user {NAME!r}: nothing of theirs is retained"


@pytest.fixture
def log(monkeypatch):
    """All that the service writes, as it writes it."""
    root, written = logging.getLogger(), io.StringIO()
    levels = {name: logging.getLogger(name).level for name in ("cause.serve", "uvicorn.error", "asyncio")}
    handlers, level_ = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    server._set_up_logging(quiet=False)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield written
    root.handlers[:] = handlers
    root.setLevel(level_)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def failing(error):
    def fail(*args, **more):
        raise error

    return fail


def answers(running, who):
    """What a token is told by every route."""
    for method, path, _ in routes(running.app):
        if path == "/v1/events":
            with running.http.stream("GET", f"{path}?after=0", headers=running.headers(who)) as answer:
                if answer.status_code == 200:
                    for line in answer.iter_lines():
                        yield line
                        if line.startswith("event: training.finished"):
                            break
                else:
                    yield answer.read().decode()
            continue
        answer = running.http.request(method, path, headers=running.headers(who), json={})
        yield answer.text + str(answer.headers)


def has_problem_of(trainer, error):
    """Whether the trainer's problem is this error, and not the one before."""
    problem = trainer.problem
    if problem is None:
        return False
    kind = "InputError" if type(error) is InputError else "OSError"
    return kind in problem.kind and (NAME in problem.text) == (type(error) is not OSError)


def others_hear(running):
    return "".join(text for who in ("auditor", "ingest", "predict", "somebody else") for text in answers(running, who))


def test_no_log_and_no_answer_to_others_names_a_user(tmp_path, log, monkeypatch):
    # replays in this process: `others_hear` asks for many, and each would start a process that the last one waits for
    with Running(tmp_path / "home", verify_processes=0) as running:
        device, trainer = running.service.device, running.service.trainer
        assert running.post(f"/v1/users/{NAME}/samples", "ingest", rows(NAME, 1, 8)).status_code == 201
        running.learn(bob=5)
        running.post(f"/v1/users/{NAME}/samples", NAME, rows(NAME, 2, 4))
        running.get(f"/v1/users/{NAME}", NAME)
        running.get(f"/v1/users/{NAME}?a={NAME}", "bob")
        running.post(f"/v1/users/{NAME}/erasures/plan", NAME, {})
        own = running.post(f"/v1/users/{NAME}/erasures", NAME, {"rounds": [7]})
        assert (own.status_code, NAME in own.text) == (409, True), "whose it is may read it"
        running.post(f"/v1/users/{NAME}/erasures", NAME, {"rounds": [1], "count": 2})
        running.settled()
        assert NAME not in others_hear(running)

        catch_up = device.catch_up
        for error in (InputError(TEXT), LearnerError(f"training failed in a worker: OSError: {TEXT}"), OSError(TEXT)):
            with monkeypatch.context() as patch:
                patch.setattr(device, "catch_up", failing(error))
                running.post("/v1/users/bob/erasures", body={"rounds": [1], "count": 1})
                trainer.wake(repair=True)
                # an attempt that began with the error before may end only now
                wait_until(partial(has_problem_of, trainer, error))
                text = running.get("/v1/status").json()["problem"]
                assert (NAME in text) == (type(error) is not OSError), "an operator may read it"
                seen = running.get("/v1/status", "auditor").json()["problem"]
                assert ("OSError" if type(error) is not InputError else "InputError") in seen
                assert NAME not in others_hear(running)
            trainer.problem = None
        assert device.catch_up == catch_up

        with monkeypatch.context() as patch:  # somebody's erasure is served first, and fails
            patch.setattr(device._erasures, "_unserved", True)
            patch.setattr(running.service.home, "accepted", failing(RequestError(TEXT)))
            for who in ("ingest", "bob"):
                refused = running.post("/v1/users/bob/samples", who, rows("bob", 3, 2))
                assert (refused.status_code, NAME in refused.text) == (409, False)
                assert Problem(**refused.json()).detail.endswith("(RequestError)")
            assert NAME in running.post("/v1/users/bob/samples", body=rows("bob", 3, 2)).text

        with monkeypatch.context() as patch:
            patch.setattr(device, "verify", failing(InputError(TEXT)))
            made = running.post("/v1/verifications", "auditor", {}).json()
            wait_until(lambda: running.get(f"/v1/verifications/{made['id']}", "auditor").json()["state"] == "failed")
            text = running.get(f"/v1/verifications/{made['id']}", "auditor").json()
            assert text["detail"] == "something does not fit the device (InputError)"

        with monkeypatch.context() as patch:  # a disk that fails, say: the answer sends its reader to the log
            patch.setattr(device, "stage_all", failing(HomeError(TEXT)))
            refused = running.post("/v1/users/bob/samples", "ingest", rows("bob", 3, 2))
            assert (refused.status_code, NAME in refused.text) == (503, False)
            assert "the home cannot be used (HomeError)" in log.getvalue()

        async def ends_badly(*_):
            yield "event: hello\n\n"
            raise RuntimeError(TEXT)

        with monkeypatch.context() as patch:  # an answer that fails when it has begun
            patch.setattr(running.service.events, "stream", ends_badly)
            with pytest.raises(Exception, match=r"incomplete|closed|disconnected"):
                running.get("/v1/events")
        with monkeypatch.context() as patch:  # and one that fails before
            patch.setattr(device, "status", failing(RuntimeError(TEXT)))
            assert running.get("/v1/status").status_code == 500
        thread = threading.Thread(target=failing(ValueError(TEXT)), name="one that nobody looks after")
        thread.start()
        thread.join()
        sys.excepthook(ValueError, ValueError(TEXT), None)
        wait_until(lambda: log.getvalue().count("unexpected ValueError") == 2)
        assert NAME not in others_hear(running)

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    messages = " ".join(line["message"] for line in lines)
    for text in ("training failed: something does not fit", "failed (OSError)", "unexpected RuntimeError", "ASGI"):
        assert text in messages
    assert any("ends_badly" in line.get("error", "") for line in lines), "where it happened is told"
    assert len([line for line in lines if line["logger"] == "cause.serve.access"]) > 100
    assert NAME not in log.getvalue()
    assert NAME.lower() not in log.getvalue().lower()
