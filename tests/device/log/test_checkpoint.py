"""Notes and checkpoints are C2SP's, byte for byte, and anything else is refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.device.log import (
    Checkpoint,
    SigningKey,
    VerifierKey,
    open_checkpoint,
    open_note,
    sign_checkpoint,
    sign_note,
)
from cause.device.log.merkle import EMPTY_ROOT
from cause.device.log.note import MAX_NOTE_BYTES, MAX_SIGNATURES
from cause.errors import LogError

# The key and the note of the tests of Go's golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
NOTE = (
    TEXT
    + "\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
).encode()

LOG = SigningKey("device.example/log", bytes(range(32)))
OTHER = SigningKey("witness.example", bytes(range(1, 33)))
HEAD = Checkpoint("device.example/log", 20852163, base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="))


def test_gos_own_note_is_made_and_opened_byte_for_byte():
    key = SigningKey("PeterNeumann", PETER_SEED)
    assert str(key.verifier) == PETER
    assert VerifierKey.parse(PETER) == key.verifier
    assert sign_note(TEXT, [key]) == NOTE
    assert open_note(NOTE, [key.verifier]) == TEXT


def test_the_checkpoint_of_the_specification_has_these_lines():
    text = "device.example/log\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    assert HEAD.text() == text
    assert Checkpoint.parse(text) == HEAD
    note = sign_checkpoint(HEAD, LOG)
    assert note.decode().startswith(text + "\n— device.example/log ")
    assert open_checkpoint(note, LOG.verifier) == HEAD


def test_any_changed_byte_makes_the_note_void():
    note = sign_checkpoint(HEAD, LOG)
    for place in range(len(note)):
        for bit in (1, 0x20):
            wrong = note[:place] + bytes([note[place] ^ bit]) + note[place + 1 :]
            with pytest.raises(LogError):
                open_checkpoint(wrong, LOG.verifier)
        with pytest.raises(LogError):
            open_checkpoint(note[:place], LOG.verifier)


def test_any_changed_character_makes_a_verifier_key_void():
    for start in range(len(PETER)):
        for end in range(start + 1, len(PETER) + 1):
            if end - start < len(PETER):
                with pytest.raises(LogError):
                    VerifierKey.parse(PETER[start:end])
        with pytest.raises(LogError):
            VerifierKey.parse(PETER[:start] + chr(ord(PETER[start]) + 1) + PETER[start + 1 :])
    for wrong in (
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",  # another length, right id
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",  # another algorithm, right id
        "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",  # upper case
    ):
        with pytest.raises(LogError):
            VerifierKey.parse(wrong)


def test_signatures_of_unknown_keys_are_ignored_but_do_not_suffice():
    note = sign_note(TEXT, [OTHER, LOG])
    assert open_note(note, [LOG.verifier]) == TEXT
    with pytest.raises(LogError, match="no signature by a known key"):
        open_note(note, [VerifierKey.parse(PETER)])
    with pytest.raises(LogError, match="no signature by a known key"):
        open_note(note, [])


def test_a_known_key_that_signed_wrongly_voids_the_whole_note():
    good, other = sign_note(TEXT, [LOG]), sign_note("another text\n", [OTHER])
    mixed = good + other.split(b"\n\n")[1]
    assert open_note(mixed, [LOG.verifier]) == TEXT
    with pytest.raises(LogError, match=r"witness\.example"):
        open_note(mixed, [LOG.verifier, OTHER.verifier])


def test_a_witness_alone_does_not_make_a_checkpoint():
    note = sign_note(HEAD.text(), [OTHER])
    with pytest.raises(LogError):
        open_checkpoint(note, LOG.verifier, [OTHER.verifier])
    both = sign_note(HEAD.text(), [LOG, OTHER])
    assert open_checkpoint(both, LOG.verifier, [OTHER.verifier]) == HEAD


def test_another_key_of_the_same_name_is_not_believed():
    with pytest.raises(LogError):
        open_checkpoint(sign_checkpoint(HEAD, LOG), SigningKey(HEAD.origin, bytes(32)).verifier)


def test_the_log_signs_and_is_read_under_its_own_name_only():
    with pytest.raises(LogError, match="key of its name"):
        sign_checkpoint(HEAD, OTHER)
    foreign = Checkpoint("elsewhere.example", HEAD.size, HEAD.root)
    with pytest.raises(LogError, match="expected one of"):
        open_checkpoint(sign_note(foreign.text(), [LOG]), LOG.verifier)


def test_sixteen_signatures_are_read_and_far_more_are_not():
    note = sign_note(TEXT, [LOG, *[OTHER] * 15])
    assert open_note(note, [LOG.verifier]) == TEXT
    lines = (b"\xe2\x80\x94 a AAAAAAA=\n") * MAX_SIGNATURES
    with pytest.raises(LogError, match="signatures"):
        open_note(note + lines, [LOG.verifier])
    with pytest.raises(LogError, match="longer"):
        open_note(b"a" * MAX_NOTE_BYTES + NOTE, [LOG.verifier])
    with pytest.raises(LogError, match="signatures"):
        sign_note(TEXT, [])


def test_a_text_may_hold_empty_lines():
    text = "one\n\n— not a signature\n\ntwo\n"
    assert open_note(sign_note(text, [LOG]), [LOG.verifier]) == text


@pytest.mark.parametrize("text", ["no newline", "tab\t\n", "carriage return\r\n", "nul\0\n"])
def test_texts_that_no_note_can_have_are_not_signed(text):
    with pytest.raises(LogError):
        sign_note(text, [LOG])


@pytest.mark.parametrize("text", ["tab\t\n", "carriage return\r\n", "nul\0\n"])
def test_such_texts_are_refused_even_if_they_are_signed(text):
    signature = base64.b64encode(LOG.verifier.key_id + LOG.sign(text.encode())).decode()
    note = f"{text}\n— {LOG.verifier.name} {signature}\n".encode()
    with pytest.raises(LogError, match="control characters"):
        open_note(note, [LOG.verifier])


@pytest.mark.parametrize(
    "line",
    [
        "- PeterNeumann AAAAAAA=",
        "— PeterNeumann",
        "— PeterNeumann AAAAAAA= x",
        "—  AAAAAAA=",
        "— Peter+Neumann AAAAAAA=",
        "— Peter\u00a0Neumann AAAAAAA=",
        "— PeterNeumann AAAA",
        "— PeterNeumann AAAAAAB=",
        "— PeterNeumann AAAAA-A=",
        "— PeterNeumann AAAAAAA",
    ],
)
def test_malformed_signature_lines_void_the_note_although_another_signature_holds(line):
    assert open_note(NOTE + "— Peter AAAAAAA=\n".encode(), [VerifierKey.parse(PETER)]) == TEXT
    with pytest.raises(LogError):
        open_note(NOTE + line.encode() + b"\n", [VerifierKey.parse(PETER)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n",
        "a\n1\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=",
        "\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n01\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n-1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n+1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n1 \nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n\u0661\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n9223372036854775808\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n0\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jx\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n",
    ],
)
def test_malformed_checkpoints_are_refused(text):
    with pytest.raises(LogError):
        Checkpoint.parse(text)


def test_extension_lines_are_kept():
    head = Checkpoint("a", 0, EMPTY_ROOT, ("one", "two"))
    assert Checkpoint.parse(head.text()) == head
    with pytest.raises(LogError):
        Checkpoint("a\n7", 0, EMPTY_ROOT)
    with pytest.raises(LogError):
        Checkpoint("a", 0, EMPTY_ROOT, ("",))


def test_the_secret_key_is_not_printed():
    assert bytes(range(32)).hex() not in repr(LOG)
    assert "device.example/log" in repr(LOG)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_our_own_error(data):
    for note in (data, NOTE + data):
        try:
            open_note(note, [VerifierKey.parse(PETER)])
        except LogError:
            pass
        else:
            assert note == NOTE or note.startswith(NOTE)
