"""Signed notes as C2SP's `signed-note` says: a text, an empty line, and one signature a line.

Only Ed25519 (signature type 0x01). Signatures of other keys than the trusted ones are ignored, so that others may
co-sign; a wrong signature of a trusted key makes the whole note void.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from cause.errors import LogError

ED25519 = b"\x01"
MAX_NOTE_BYTES = 256 * 1024
MAX_SIGNATURES = 32  # the specification asks for at least 16
_DASH = "— "


@dataclass(frozen=True)
class VerifierKey:
    """A trusted signer: a name, and an Ed25519 public key of 32 bytes.

    >>> key = VerifierKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    >>> key.name, key.key_id.hex(), len(key.public)
    ('PeterNeumann', 'c74f20a3', 32)
    """

    name: str
    public: bytes

    def __post_init__(self) -> None:
        _check_name(self.name)
        if len(self.public) != 32:
            raise LogError(f"an Ed25519 public key has 32 bytes, not {len(self.public)}")

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Parse a key of the form `name+id+base64(type and key)`."""
        parts = text.split("+", 2) if len(text) <= 1000 else []  # the base64 part may have a + of its own
        if len(parts) != 3:
            raise LogError(f"verifier key {text[:80]!r} is not of the form name+id+key")
        name, key_id, encoded = parts
        raw = _decode(encoded, "verifier key")
        if raw[:1] != ED25519 or len(raw) != 33:
            raise LogError(f"verifier key of {name[:80]!r} is not an Ed25519 key")
        key = cls(name, raw[1:])
        if key.key_id.hex() != key_id:
            raise LogError(f"verifier key of {name[:80]!r} has id {key_id[:16]!r}, but its key's is {key.key_id.hex()}")
        return key

    @property
    def key_id(self) -> bytes:
        """Four bytes that distinguish keys of the same name; they are no proof."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(ED25519 + self.public).decode()}"


class SigningKey:
    """The key that a log signs with, from 32 secret bytes, which its `repr` does not show."""

    def __init__(self, name: str, seed: bytes) -> None:
        if len(seed) != 32:
            raise LogError(f"an Ed25519 private key has 32 bytes, not {len(seed)}")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, self._key.public_key().public_bytes_raw())

    def sign(self, text: bytes) -> bytes:
        """Return the Ed25519 signature of a text, 64 bytes."""
        return self._key.sign(text)

    def __repr__(self) -> str:
        return f"SigningKey({self.verifier})"


def sign_note(text: str, keys: Sequence[SigningKey]) -> bytes:
    """Return a note: the text, which must end in a newline, signed by each key."""
    plain = text.encode()
    _check_characters(text)
    if not text.endswith("\n"):
        raise LogError("the text of a note ends in a newline, this one does not")
    if not 1 <= len(keys) <= MAX_SIGNATURES:
        raise LogError(f"a note has 1 to {MAX_SIGNATURES} signatures, not {len(keys)}")
    lines = [
        f"{_DASH}{key.verifier.name} {base64.b64encode(key.verifier.key_id + key.sign(plain)).decode()}\n"
        for key in keys
    ]
    note = plain + b"\n" + "".join(lines).encode()
    if len(note) > MAX_NOTE_BYTES:
        raise LogError(f"a note of {len(note)} bytes is longer than {MAX_NOTE_BYTES}")
    return note


def open_note(note: bytes, trusted: Iterable[VerifierKey]) -> str:
    """Return the text of a note; raise a `LogError` unless a trusted key signed it and none signed wrongly."""
    text, signatures = _parse(note)
    keys = {(key.name, key.key_id): key for key in trusted}
    verified = False
    for name, key_id, signature in signatures:
        key = keys.get((name, key_id))
        if key is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            raise LogError(f"the signature of {name!r} does not hold: note or signature was changed") from None
        verified = True
    if not verified:
        raise LogError(f"no signature by a known key, only by {[name for name, _, _ in signatures]}")
    return text


def _parse(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    if len(note) > MAX_NOTE_BYTES:
        raise LogError(f"a note of {len(note)} bytes is longer than {MAX_NOTE_BYTES}")
    try:
        whole = note.decode()
    except UnicodeDecodeError:
        raise LogError("a note is UTF-8 text, this is not") from None
    _check_characters(whole)
    text, separator, tail = whole.rpartition("\n\n")
    if not separator or not tail.endswith("\n"):
        raise LogError("a note is a text, an empty line and signature lines; this is not")
    lines = tail.split("\n")[:-1]
    if not 1 <= len(lines) <= MAX_SIGNATURES:
        raise LogError(f"a note has 1 to {MAX_SIGNATURES} signatures, not {len(lines)}")
    return text + "\n", [_signature(line) for line in lines]


def _signature(line: str) -> tuple[str, bytes, bytes]:
    parts = line.removeprefix(_DASH).split(" ") if line.startswith(_DASH) else []
    if len(parts) != 2:
        raise LogError(f"not a signature line: {line[:80]!r}")
    name, encoded = parts
    _check_name(name)
    raw = _decode(encoded, "signature")
    if len(raw) < 5:
        raise LogError(f"signature of {name[:80]!r} has no more than a key id")
    return name, raw[:4], raw[4:]


def _decode(encoded: str, what: str) -> bytes:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if not raw or base64.b64encode(raw).decode() != encoded:  # one encoding only, or a note could be varied
        raise LogError(f"{what} is not base64: {encoded[:80]!r}")
    return raw


def _check_name(name: str) -> None:
    if not name or "+" in name or any(sign.isspace() or sign < " " for sign in name):
        raise LogError(f"a key's name is not empty and has neither spaces nor +: {name[:80]!r}")


def _check_characters(text: str) -> None:
    if any(sign < " " and sign != "\n" for sign in text):
        raise LogError("a note has no control characters other than newlines, this one does")
