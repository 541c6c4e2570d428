"""Whatever is done to a vault, in whatever order, it holds what a dictionary would, on disk too."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cause.device.vault import RotatingFileKeySource, Vault
from tests.device.vault.attacker import recoverable
from tests.recording_disk import RecordingDisk

NAMES = st.integers(0, 30).map(lambda number: b"name" + number.to_bytes(12, "big"))


class VaultMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        RotatingFileKeySource.create(self.root / "master")
        self.disk = RecordingDisk(self.root)
        self.source = RotatingFileKeySource(self.root / "master", self.disk)
        self.vault = Vault.create(self.root / "vault", self.source, self.disk, page_bytes=512)
        self.held = {}

    @rule(names=st.sets(NAMES, max_size=6))
    def add(self, names):
        self.held |= self.vault.new_keys(names - set(self.held))

    @rule(names=st.sets(NAMES, max_size=6))
    def erase(self, names):
        erased, before = names & set(self.held), self.vault.generation
        assert self.vault.erase(names) == erased
        self.held = {name: key for name, key in self.held.items() if name not in erased}
        assert (self.vault.generation > before) == bool(erased)

    @rule()
    def open_again(self):
        self.vault.close()
        self.vault = Vault.open(self.root / "vault", self.source, self.disk)

    @precondition(lambda self: self.held)
    @rule()
    def seal_and_open(self):
        for name, key in self.held.items():
            blob = self.vault.seal(name, key, name)
            assert self.vault.open_sealed(name, blob, name) == key

    @invariant()
    def holds_what_a_dictionary_would(self):
        assert {name: self.vault.key(name) for name in self.vault.names()} == self.held
        assert len(self.vault) == len(self.held)
        assert self.vault.damage == []

    @invariant()
    def files_hold_the_same_and_no_more(self):
        blobs = [path.read_bytes() for path in self.root.rglob("*") if path.is_file()]
        assert recoverable([self.source.read()], blobs) == self.held

    @invariant()
    def both_copies_hold_the_same(self):
        for path in (self.root / "vault").glob("*.copy"):
            assert path.read_bytes() == path.with_suffix("").read_bytes(), path.name

    def teardown(self):
        self.vault.close()
        shutil.rmtree(self.root)


TestVault = VaultMachine.TestCase
