"""Names, keys and sizes that the tests of a vault share."""

from cause.device.vault import EnvKeySource, keyfile

MASTER = bytes(range(32))
SOURCE = EnvKeySource("MASTER", {"MASTER": MASTER.hex()})
OTHER = EnvKeySource("MASTER", {"MASTER": bytes(32).hex()})
PAGE = 1024


def name(number):
    return b"name" + number.to_bytes(12, "big")


def used(*records):
    """Where a page of records with so many keys ends."""
    return keyfile.HEAD_BYTES + sum(map(keyfile.record_bytes, records))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
