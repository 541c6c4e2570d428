"""After an erasure the memory of the process holds no key that was destroyed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cause.device.vault import EnvKeySource, RotatingFileKeySource, Vault
from cause.device.vault.secrets_in_memory import wipe, wiping
from cause.device.vault.sources import KeySource, new_master_key
from tests.device.vault.attacker import recoverable
from tests.quick import quick_only

PROCESS = """
import gc, sys
from pathlib import Path
from cause.device.vault import EnvKeySource, RotatingFileKeySource, Vault

place, reopened, rotating = Path(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True"
source = RotatingFileKeySource(place / "master") if rotating else EnvKeySource("MASTER")
vault = Vault.create(place / "vault", source)
names = [number.to_bytes(16, "big") for number in range(500)]
for start in range(0, 500, 5):
    vault.add_keys(names[start : start + 5])
if reopened:
    vault.close()
    vault = Vault.open(place / "vault", source)
for name in names[:300]:
    vault.open_sealed(name, vault.seal(name, b"a sample", b"place"), b"place")
    vault.commit(name, bytes(32))
    vault.joint_key([name])
    with vault.borrow(name):
        pass

def show(what):
    gc.collect()
    print(what, flush=True)
    sys.stdin.readline()

show("filled")
for start in range(0, 200, 50):
    vault.erase(names[start : start + 50])
show("erased")
vault.close()
show("closed")
"""


def memory(process):
    """The writable private memory of a process."""
    areas = []
    with Path(f"/proc/{process}/maps").open() as maps, Path(f"/proc/{process}/mem").open("rb", 0) as bytes_:
        for line in maps:
            area = re.match("([0-9a-f]+)-([0-9a-f]+) rw.p", line)
            if area and "[v" not in line:
                bytes_.seek(int(area[1], 16))
                for _ in range(int(area[1], 16), int(area[2], 16), 4096):
                    page = bytes_.read(4096)
                    areas.append(page if page.strip(b"\0") else b"\0")  # most of it was never used
    return b"".join(areas)


def held(data, keys):
    """The numbers of the keys that are somewhere in the data, at any address."""
    array, number_of = np.frombuffer(data, np.uint8), {key: number for number, key in keys.items()}
    places = np.arange(len(array) - 31, dtype=np.uint32)
    for at in range(0, 8, 2):  # by pairs of bytes, so that few places are left to compare
        pairs = np.zeros((256, 256), bool)
        for key in number_of:
            pairs[key[at], key[at + 1]] = True
        places = places[pairs[array[places + at], array[places + at + 1]]]
    return {number_of[own] for place in places.tolist() if (own := data[place : place + 32]) in number_of}


def readable():
    try:
        with Path("/proc/self/mem").open("rb"):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not readable(), reason="the memory of a process cannot be read here")
@pytest.mark.parametrize(
    ("reopened", "rotating"), quick_only([(False, False), (True, False), (True, True)], [(True, True)])
)
def test_destroyed_keys_are_not_in_memory_and_after_closing_none_is(tmp_path, reopened, rotating):
    source: KeySource = RotatingFileKeySource.create(tmp_path / "master")
    if not rotating:
        source = EnvKeySource("MASTER", {"MASTER": new_master_key()})
    old_master = source.read()
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path), str(reopened), str(rotating)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"MASTER": old_master.hex(), "OPENBLAS_NUM_THREADS": "1"},
    )
    with process:
        assert process.stdout.readline() == "filled\n"
        blobs = [path.read_bytes() for path in (tmp_path / "vault").iterdir()]
        keys = {int.from_bytes(name, "big"): key for name, key in recoverable([old_master], blobs).items()}
        assert len(keys) == 500
        before = memory(process.pid)
        assert held(before, keys) == set(range(500))  # the reader is able
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "erased\n"
        after = memory(process.pid)
        assert held(after, keys) == set(range(200, 500))
        if rotating:
            assert old_master not in after
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        closed = memory(process.pid)
        assert not held(closed, keys)
        process.stdin.write("\n")


def test_bytes_and_bytearrays_are_overwritten():
    secret, other = os.urandom(32), bytearray(b"secret")
    with wiping(secret) as lent:
        assert any(lent)
    wipe(other, b"")
    assert not any(other)
    if sys.implementation.name == "cpython":
        assert not any(secret)


def test_an_erasure_overwrites_the_root_key_of_the_generation_before(tmp_path):
    source = EnvKeySource("MASTER", {"MASTER": new_master_key()})
    with Vault.create(tmp_path / "vault", source) as vault:
        vault.add_keys([bytes(16)])
        assert vault._writer is not None
        root = vault._writer.generation.root
        assert any(root)
        vault.erase([bytes(16)])
        assert not any(root)
