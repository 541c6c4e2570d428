"""The whole interface in any order: after each call a device with a home is what plain sets say it should be."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cause.device.device import Cause
from cause.device.verify import verify
from cause.engine.requests import Request
from cause.errors import CauseError, RequestError
from tests.clean_room import differences, meant
from tests.device.homes import samples
from tests.torture import checks
from tests.torture.calls import SYSTEMS, USERS, Book, Case, Forget, Learn
from tests.torture.kills import scratch_folder
from tests.torture.life import learner_of, marks
from tests.torture.sample_ids import know, translated

X = samples("x", 1, 4)[0]
REPAIRS = st.sampled_from(["now", "later"])


class Device(RuleBasedStateMachine):
    """A device with a home beside one that lives in memory."""

    @initialize(system=st.sampled_from(SYSTEMS), shards=st.integers(1, 3), slots=st.sampled_from([3, 5]))
    def make(self, system, shards, slots):
        self.folder = scratch_folder()
        self.settings = {"system": system, "shards": shards, "slots": slots}
        self.calls, self.book = [], Book()
        self.provenance = {}
        self.open()
        self.plain = Cause(learner=learner_of("bayes"), **self.settings)

    def open(self, **how):
        key = {"env": "CAUSE_TEST_KEY"}
        device = Cause(f"{self.folder.name}/home", learner=learner_of("bayes"), key=key, **self.settings, **how)
        if not how:
            self.device = device
        return device

    def did(self, call):
        self.calls.append(call)
        self.book.apply(call)

    @rule(counts=st.dictionaries(st.sampled_from(USERS), st.sampled_from([1, 2, 7, 140]), max_size=3), repair=REPAIRS)
    def learn(self, counts, repair):
        t = self.book.round + 1
        for user, count in counts.items():
            know(user, t, count)
        for device in (self.device, self.plain):
            uploads = {user: samples(user, t, count) for user, count in counts.items()}
            device.learn(uploads, repair=repair, empty=True)
        self.did(Learn(t, tuple(sorted(counts.items())), repair))

    @precondition(lambda self: self.book.retained)
    @rule(data=st.data(), repair=REPAIRS, together=st.integers(1, 3))
    def forget(self, data, repair, together):
        left, requests = set(self.book.retained), []
        for _ in range(together):
            if left:
                requests.append(data.draw(request(left)))
                left -= meant(requests[-1], left)
        for device in (self.device, self.plain):
            device.serve(translated(device.ledger, requests), repair=repair)
        self.did(Forget(tuple(requests), repair))

    @rule(user=st.sampled_from(USERS), count=st.integers(200, 300))
    def ask_for_too_much(self, user, count):
        before = self.device.home.database.row("SELECT count(*) FROM requests")
        for request in (Request(user, rounds=(1,), count=count), Request(user, rounds=(99,)), Request("nobody")):
            try:
                self.device.serve([request])
            except RequestError:
                continue
            raise AssertionError(f"{request} was served")
        assert self.device.home.database.row("SELECT count(*) FROM requests") == before

    @rule(segments=st.one_of(st.none(), st.integers(1, 3)))
    def repair(self, segments):
        left = iter(range(segments or 0))
        self.device.repair(stop=None if segments is None else lambda: next(left, None) is None)
        if segments is None:
            assert self.device.waiting() == []

    @rule()
    def reopen(self):
        self.device.close()
        self.open()

    @rule()
    def read(self):
        with self.open(read_only=True) as reader:
            assert checks.held(reader) == self.book.retained
            assert reader.heads() == self.device.heads()
            assert answer(reader) == answer(self.device)

    @invariant()
    def holds_exactly_what_it_should(self):
        self.provenance = marks(self.device) | self.provenance
        assert checks.whole(self.device, self.book.retained, self.provenance) == []
        waiting = self.device.waiting()
        for shard in self.device.ledger.shards():
            if shard not in waiting:
                assert self.device.memory.head(shard).key == self.device.ledger.lineage(shard).last
        assert isinstance(answer(self.device), list) or not self.device.heads()

    @invariant()
    def nothing_that_was_forgotten_can_be_read(self):
        case = Case(tuple(self.calls))
        home = self.device.home.layout.folder
        assert checks.nothing_comes_back(home, case, self.book.forgotten, self.provenance) == []

    def teardown(self):
        if hasattr(self, "device"):
            for device in (self.device, self.plain):
                device.repair()
            assert differences(self.device, self.plain) == []
            assert verify(self.device, processes=0).mismatched == []
            self.device.close()
            self.folder.cleanup()


def answer(device):
    try:
        return device.predict(X).tolist()
    except CauseError as error:
        return str(error)


@st.composite
def request(draw, left):
    user, round_, _ = draw(st.sampled_from(sorted(left)))
    mine = sorted((t, n) for u, t, n in left if u == user)
    kind = draw(st.sampled_from(["all", "rounds", "count", "samples"]))
    if kind == "all":
        return Request(user)
    if kind == "rounds":
        return Request(user, rounds=tuple(draw(st.sets(st.sampled_from(sorted({t for t, _ in mine})), min_size=1))))
    if kind == "count":
        return Request(user, rounds=(round_,), count=draw(st.integers(1, sum(t == round_ for t, _ in mine))))
    return Request(user, samples=tuple(draw(st.sets(st.sampled_from(mine), min_size=1, max_size=4))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of an estimator that has not seen every class
def test_the_whole_interface_in_any_order(deep):
    run_state_machine_as_test(
        Device,
        settings=settings(
            max_examples=400 if deep else 8,
            stateful_step_count=40 if deep else 15,
            suppress_health_check=list(HealthCheck),
            deadline=None,
        ),
    )
