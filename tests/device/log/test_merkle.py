"""Roots and proofs are RFC 6962's, and nothing that was changed verifies."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree, InvalidProof, verify_consistency, verify_inclusion

import cause.device.log as log
from cause.device.log.merkle import EMPTY_ROOT, MAX_SIZE
from cause.errors import LogError
from tests.device.log.trees import DictNodes, TableNodes, log_of, mth, path, proof, sides

# The reference tree of the Certificate Transparency project (its merkle_tree_test.cc).
ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
    )
]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
    (6, 7): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
}


@pytest.fixture(params=[DictNodes, TableNodes])
def nodes(request):
    stored = request.param()
    yield stored
    if isinstance(stored, TableNodes):
        stored.close()


def test_roots_of_the_reference_tree(nodes):
    log_of(ENTRIES, nodes)
    assert [log.root_at(nodes, size).hex() for size in range(9)] == ROOTS
    assert [log_of(ENTRIES[:size], DictNodes()).root.hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize(("case", "hashes"), INCLUSION.items())
def test_inclusion_proofs_of_the_reference_tree(case, hashes, nodes):
    index, size = case
    log_of(ENTRIES, nodes)
    assert [value.hex() for value in log.inclusion_proof(nodes, index, size)] == hashes
    root = bytes.fromhex(ROOTS[size])
    log.verify_inclusion(log.leaf_hash(ENTRIES[index]), index, size, [bytes.fromhex(h) for h in hashes], root)


@pytest.mark.parametrize(("case", "hashes"), CONSISTENCY.items())
def test_consistency_proofs_of_the_reference_tree(case, hashes, nodes):
    old, size = case
    log_of(ENTRIES, nodes)
    assert [value.hex() for value in log.consistency_proof(nodes, old, size)] == hashes
    roots = (bytes.fromhex(ROOTS[old]), bytes.fromhex(ROOTS[size]))
    log.verify_consistency(old, size, [bytes.fromhex(h) for h in hashes], *roots)


@st.composite
def logs(draw):
    size = draw(st.integers(1, 70))
    entries = [draw(st.binary(max_size=4)) + bytes([number]) for number in range(size)]
    nodes = DictNodes()
    log_of(entries, nodes)
    return entries, nodes


@given(logs(), st.data())
def test_every_root_and_proof_is_the_one_the_rfc_defines(made, data):
    entries, nodes = made
    size = data.draw(st.integers(1, len(entries)))
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    assert log.root_at(nodes, size) == mth(entries[:size])
    assert log.inclusion_proof(nodes, index, size) == path(index, entries[:size])
    assert log.consistency_proof(nodes, old, size) == proof(old, entries[:size])


@given(logs(), st.data())
def test_proofs_verify_and_changed_ones_do_not(made, data):
    entries, nodes = made
    size = data.draw(st.integers(1, len(entries)))
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    root, old_root, leaf = mth(entries[:size]), mth(entries[:old]), log.leaf_hash(entries[index])

    proof = log.inclusion_proof(nodes, index, size)
    log.verify_inclusion(leaf, index, size, proof, root)
    refused = [(leaf, index, size, wrong, root) for wrong in changed(proof)]
    refused += [(flip(leaf), index, size, proof, root), (leaf, index, size, proof, flip(root))]
    refused += [(leaf, other, size, proof, root) for other in range(-1, size + 2) if other != index]
    refused += [(leaf, index, other, proof, mth(entries[:other])) for other in range(len(entries) + 1) if other != size]
    refused += [(leaf, index, other, proof, root) for other in range(index + 1) if other != size]
    refused += [  # the size alone is wrong: a root does not know its size, but the way to it must be the same
        (leaf, index, other, proof, root)
        for other in range(index + 1, 2 * size)
        if sides(index, other) != sides(index, size)
    ]
    for arguments in refused:
        with pytest.raises(LogError):
            log.verify_inclusion(*arguments)

    proof = log.consistency_proof(nodes, old, size)
    log.verify_consistency(old, size, proof, old_root, root)
    inconsistent = [(old, size, wrong, old_root, root) for wrong in changed(proof)]
    inconsistent.append((old, size, proof, flip(old_root), root))
    if old:  # anything begins with the empty log
        inconsistent.append((old, size, proof, old_root, flip(root)))
    inconsistent += [(other, size, proof, old_root, root) for other in range(-1, size + 2) if other != old and old]
    inconsistent += [(old, other, proof, old_root, mth(entries[:other])) for other in range(old + 1, size) if old]
    for wrong_proof in inconsistent:
        with pytest.raises(LogError):
            log.verify_consistency(*wrong_proof)


def changed(proof):
    yield [*proof, bytes(32)]
    yield [bytes(32), *proof]
    for place in range(len(proof)):
        yield proof[:place] + proof[place + 1 :]
        yield [*proof[:place], flip(proof[place]), *proof[place + 1 :]]
        yield [*proof[:place], proof[place][:-1], *proof[place + 1 :]]
    if len(set(proof)) > 1:
        yield proof[::-1]


def flip(value):
    return value[:-1] + bytes([value[-1] ^ 1])


def test_a_rewritten_log_is_not_consistent_with_its_old_head():
    before, after = DictNodes(), DictNodes()
    log_of(ENTRIES[:5], before)
    log_of([*ENTRIES[:2], b"another", *ENTRIES[3:]], after)
    with pytest.raises(LogError, match="rewritten"):
        log.verify_consistency(5, 8, log.consistency_proof(after, 5, 8), log.root_at(before, 5), log.root_at(after, 8))


def test_an_entry_cannot_pass_for_a_node():
    left, right = log.leaf_hash(b"a"), log.leaf_hash(b"b")
    forged = log.leaf_hash(left + right)
    assert forged != log_of([b"a", b"b"], DictNodes()).root


def test_the_border_between_two_hashes_cannot_be_moved():
    nodes = DictNodes()
    root = log_of([b"a", b"b"], nodes).root
    leaf, [neighbour] = log.leaf_hash(b"a"), log.inclusion_proof(nodes, 0, 2)
    with pytest.raises(LogError, match="32 bytes"):
        log.verify_inclusion(leaf + neighbour[:1], 0, 2, [neighbour[1:]], root)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 20, 33])
def test_pymerkle_agrees(size):
    entries = [f"entry {number}".encode() for number in range(size)]
    nodes, theirs = DictNodes(), InmemoryTree(algorithm="sha256")
    log_of(entries, nodes)
    for entry in entries:
        theirs.append_entry(entry)
    assert theirs.get_root(size) == log.root_at(nodes, size)
    for number in range(size):
        proof = theirs.prove_inclusion(number + 1, size)
        verify_inclusion(theirs.get_leaf(number + 1), theirs.get_root(size), proof)
        assert log.inclusion_proof(nodes, number, size) == [bytes.fromhex(h) for h in proof.serialize()["path"]][1:]
        proof = theirs.prove_consistency(number + 1, size)
        verify_consistency(log.root_at(nodes, number + 1), log.root_at(nodes, size), proof)
        with pytest.raises(InvalidProof):
            verify_consistency(flip(log.root_at(nodes, number + 1)), log.root_at(nodes, size), proof)


def test_appending_and_proving_read_no_more_than_a_few_nodes():
    nodes = DictNodes()
    frontier = log_of([b"%d" % number for number in range(5000)], nodes)
    assert nodes.reads == 0  # appending needs the frontier only
    assert len(nodes.hashes) < 2 * 5000
    log.inclusion_proof(nodes, 1234, 5000)
    log.consistency_proof(nodes, 4321, 5000)
    assert nodes.reads <= 4 * 13
    assert log.Frontier.of(nodes, 5000) == frontier


def test_a_frontier_is_taken_up_again_from_the_stored_nodes():
    nodes = DictNodes()
    log_of(ENTRIES[:5], nodes)
    frontier = log.Frontier.of(nodes, 5)
    for entry in ENTRIES[5:]:
        frontier, added = frontier.append(log.leaf_hash(entry))
        nodes.store(added)
    assert frontier.root.hex() == ROOTS[8]


@pytest.mark.parametrize("size", [-1, MAX_SIZE + 1])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(LogError):
        log.root_at(DictNodes(), size)
    with pytest.raises(LogError):
        log.verify_consistency(0, size, [], EMPTY_ROOT, EMPTY_ROOT)
    with pytest.raises(LogError):
        log.Frontier(size, ())


def test_the_last_entry_of_the_largest_log_verifies_quickly():
    leaf, proof = log.leaf_hash(b"x"), [hashlib.sha256(bytes([level])).digest() for level in range(62)]
    root = leaf
    for neighbour in proof:
        root = hashlib.sha256(b"\x01" + neighbour + root).digest()
    log.verify_inclusion(leaf, MAX_SIZE - 1, MAX_SIZE, proof, root)
