"""A vault's life on a recording disk, and what has to hold after each power loss in it."""

import os

from cause.device.vault import FILES, FileKeySource, RotatingFileKeySource, Vault
from cause.errors import VaultError
from tests.device.vault.attacker import recoverable, roots, table
from tests.device.vault.common import name
from tests.recording_disk import RecordingDisk

PAGE = 512  # nine keys at once, five one by one


class Life:
    """After each step: how much was done to the disk, and what the vault holds."""

    def __init__(self, root, rotating, **failure):
        self.root, self.rotating = root, rotating
        root.mkdir()
        if rotating:
            RotatingFileKeySource.create(root / "master")
        else:
            (root / "master").write_bytes(os.urandom(32))
        self.disk = RecordingDisk(root, **failure)
        # operations, keys held (None: no vault), keys destroyed
        self.promises: list[tuple[int, dict | None, frozenset]] = [(0, None, frozenset())]
        self.made = {}

    def source(self, root, disk):
        return RotatingFileKeySource(root / "master", disk) if self.rotating else FileKeySource(root / "master", disk)

    def promise(self, vault):
        held = {one: vault.key(one) for one in vault.names()}
        self.made.update(held)
        destroyed = frozenset(key for one, key in self.made.items() if one not in held)
        self.promises.append((len(self.disk.operations), held, destroyed))

    def live(self):
        source = self.source(self.root, self.disk)
        with Vault.create(self.root / "vault", source, self.disk, page_bytes=PAGE) as vault:
            self.promise(vault)
            for step in self.steps(vault):
                step()
                self.promise(vault)

    def steps(self, vault):
        yield lambda: vault.new_keys(map(name, range(4)))
        yield lambda: vault.new_key(name(10))
        yield lambda: vault.erase([name(1)])
        yield lambda: vault.new_keys([name(11), name(12)])
        yield lambda: vault.new_keys(map(name, range(20, 23)))  # on a second page
        yield lambda: vault.erase([name(0), name(11), name(21)])  # of both
        yield lambda: vault.erase([name(20), name(22)])  # and nothing is left of it
        yield lambda: vault.erase([name(12)])

    def around(self, done):
        """What had been promised when that much was done, and what was under way."""
        at = max(index for index, promise in enumerate(self.promises) if promise[0] <= done)
        return self.promises[at : at + 2]


class ManyPages(Life):
    """Erasures of more pages than are free, which take several steps."""

    def steps(self, vault):
        yield lambda: vault.new_keys(map(name, range(50)))  # six pages
        yield lambda: vault.erase(map(name, range(0, 50, 7)))
        yield lambda: vault.erase(map(name, range(1, 48)))


def blobs(root):
    return [path.read_bytes() for path in root.rglob("*") if path.is_file()]


def check(life, root, promised, disk=None):
    """Open what a power loss left in a folder: it holds what was promised before or after, and works."""
    disk = disk or RecordingDisk(root)
    _, _, destroyed = promised[0]
    master = life.source(root, disk).read()
    assert not destroyed & set(recoverable([master], blobs(root)).values()), "an erased key can be opened"
    refused = None
    try:
        vault = Vault.open(root / "vault", life.source(root, disk), disk)
    except VaultError as error:
        refused = str(error)
    if refused:
        assert promised[0][1] is None, f"a vault that was made cannot be opened: {refused}"
        assert not (root / "vault" / "root").exists(), f"half a vault cannot be opened: {refused}"
        with Vault.create(root / "vault", life.source(root, disk), disk, page_bytes=PAGE) as vault:
            vault.new_key(name(1))
        return None
    with vault:
        held = {one: vault.key(one) for one in vault.names()}
        check_held(held, [promise[1] or {} for promise in promised])
        # a write that is torn in its last byte leaves what a flipped bit leaves, where nothing is stored
        damage = [line for line in vault.damage if "where nothing is stored" not in line]
        assert all("is missing" in line for line in damage), f"a power loss is taken for damage: {vault.damage}"
        assert not damage or promised[0][1] is None
        check_files(life, root, disk, held)
    return held


def check_held(held, promised):
    before, after = promised[0], promised[-1]
    if after.items() <= before.items():  # an erasure may have come to an end in part
        assert after.items() <= held.items() <= before.items(), "a key was lost or came back"
    else:
        assert held in promised, "a key was lost, or was added in part"


def check_files(life, root, disk, held):
    """Nothing of another generation is left after an opening, and both copies are the same."""
    files = {one: (root / "vault" / one).read_bytes() for one in FILES}
    master = life.source(root, disk).read()
    assert recoverable([master], blobs(root)) == held, "opening leaves nothing of another generation"
    assert {path.name for path in (root / "vault").iterdir()} == set(FILES), "a file is left"
    for one in ("root", "table.0", "table.1", "pages"):
        assert files[one] == files[one + ".copy"], "the copies differ"
    assert any(files["table.0"]) + any(files["table.1"]) == 1, "a whole file of another generation is left"
    assert any(files["root"][:4096]) + any(files["root"][4096:]) == 1, "a root key of another generation is left"
    ((head, key),) = set(roots(master, [files["root"]]))
    used = list(table(head, key, [files["table.0"], files["table.1"]]))
    filled = [at for at in range(0, len(files["pages"]), PAGE) if any(files["pages"][at : at + PAGE])]
    assert [int.from_bytes(page, "big") * PAGE for page, _, _ in sorted(used)] == filled, "a page is left"
    if life.rotating:
        slots = (root / "master").read_bytes()
        for copy in (slots[:8192], slots[8192:]):
            assert any(copy[:4096]) + any(copy[4096:]) == 1, "an old master key is left"


def go_on(life, root):
    """What was opened after a power loss can be used as before."""
    disk = RecordingDisk(root)
    source = life.source(root, disk)
    with Vault.open(root / "vault", source, disk) as vault:
        kept = {one: vault.key(one) for one in vault.names()}
        kept |= vault.new_keys([name(77), name(78)])
        vault.erase([name(77)])
        del kept[name(77)]
    with Vault.open(root / "vault", source, disk, read_only=True) as vault:
        assert {one: vault.key(one) for one in vault.names()} == kept
