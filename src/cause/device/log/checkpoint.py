"""Signed tree heads as C2SP's `tlog-checkpoint` says: a note of origin, size and root."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from cause.device.log.merkle import EMPTY_ROOT, HASH_BYTES, MAX_SIZE
from cause.device.log.note import SigningKey, VerifierKey, open_note, sign_note
from cause.errors import LogError


@dataclass(frozen=True)
class Checkpoint:
    """The head of a log: the log's name, the number of entries, and the root hash.

    >>> print(Checkpoint("device.example/log", 0, EMPTY_ROOT).text(), end="")
    device.example/log
    0
    47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in (self.origin, *self.extensions):
            if not line or any(sign < " " for sign in line):
                raise LogError(f"a checkpoint's lines are not empty and have no control characters: {line[:80]!r}")
        if not 0 <= self.size <= MAX_SIZE:
            raise LogError(f"a log cannot have {self.size} entries, only 0 to {MAX_SIZE}")
        if len(self.root) != HASH_BYTES:
            raise LogError(f"a root has {HASH_BYTES} bytes, not {len(self.root)}")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise LogError("an empty log has the root of the empty tree, this checkpoint has another")

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """Parse the text of a note; verify the note first."""
        lines = text.split("\n")
        if len(lines) < 4 or lines[-1]:
            raise LogError("a checkpoint has three lines or more: origin, size and root")
        origin, size, root, *extensions = lines[:-1]
        if not (size.isascii() and size.isdigit()) or len(size) > 19 or (size != "0" and size.startswith("0")):
            raise LogError(f"a checkpoint's size is a plain decimal number, not {size[:80]!r}")
        try:
            raw = base64.b64decode(root, validate=True)
        except (ValueError, binascii.Error):
            raw = b""
        if len(raw) != HASH_BYTES or base64.b64encode(raw).decode() != root:
            raise LogError(f"a checkpoint's root is {HASH_BYTES} bytes in base64, not {root[:80]!r}")
        return cls(origin, int(size), raw, tuple(extensions))

    def text(self) -> str:
        """Return the text that is signed."""
        lines = (self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Return the checkpoint as a note that is signed by the log's key; the key has the log's name."""
    if key.verifier.name != checkpoint.origin:
        raise LogError(f"the log {checkpoint.origin!r} is signed by the key of its name, not by {key.verifier.name!r}")
    return sign_note(checkpoint.text(), [key])


def open_checkpoint(note: bytes, log: VerifierKey, witnesses: Sequence[VerifierKey] = ()) -> Checkpoint:
    """Verify the log's signature of a note, and those of the given witnesses; return its checkpoint."""
    text = open_note(note, [log])
    if witnesses:
        open_note(note, [log, *witnesses])
    checkpoint = Checkpoint.parse(text)
    if checkpoint.origin != log.name:
        raise LogError(f"a checkpoint of {checkpoint.origin!r}, expected one of {log.name!r}")
    return checkpoint
