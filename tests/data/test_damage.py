"""Damaged or malicious files are refused with one line that names them; no other error is raised."""

import functools
import gzip
import io
import struct
import tarfile
import time
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause.data import Dataset, files, load, pictures
from cause.data.uploads import read_inputs
from cause.errors import InputError
from tests.data import dataset_files


def npz_with(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("SLASH", "/") + ".npy", data)


def npy(array, **header):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def claims(shape):
    """An array file whose header promises more than follows."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8)


def refused(path, split="train"):
    with pytest.raises(InputError) as result:
        load(path, split)
    assert "\n" not in str(result.value)
    assert str(path.name) in str(result.value)
    return str(result.value)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path, packed):
    """`read(4 GiB)` allocates as much, and a process that overwrites freed memory fills it."""
    path, data = tmp_path / "data", bytes(range(256)) * 10_000
    path.write_bytes(gzip.compress(data) if packed else data)
    tracemalloc.start()
    try:
        assert files.read(path) == data
        assert tracemalloc.get_traced_memory()[1] < 4 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_a_file_of_the_limit_is_read_and_a_byte_more_is_refused(tmp_path, size, packed):
    path, data = tmp_path / "data", b"x" * size
    path.write_bytes(gzip.compress(data) if packed else data)
    assert files.read(path, size) == data
    if size:
        with pytest.raises(InputError, match="more than"):
            files.read(path, size - 1)


def test_cut_off_and_wrong_cifar(tmp_path):
    dataset_files.cifar10_folder(tmp_path)
    batch = tmp_path / "data_batch_3.bin"
    whole = batch.read_bytes()
    batch.write_bytes(whole[:-1])
    assert "data_batch_3.bin" in refused(tmp_path)
    batch.write_bytes(b"\x0a" + whole[1:])
    assert "label 10, but cifar10 has 10 classes" in refused(tmp_path)
    batch.unlink()
    assert "'data_batch_3.bin' is missing" in refused(tmp_path)
    assert "does not belong to the test split" in refused(tmp_path / "data_batch_1.bin", "test")


@pytest.mark.parametrize("name", ["../data_batch_1.bin", "/data_batch_1.bin", "a/../../x", "a\\..\\x"])
def test_archives_that_lead_out_of_themselves_are_refused(tmp_path, name):
    dataset_files.tar(tmp_path / "cifar-10-binary.tar.gz", [(name, bytes(3073))])
    assert "leads out of the archive" in refused(tmp_path / "cifar-10-binary.tar.gz")


def test_archives_with_links_or_doubles_are_refused(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    dataset_files.tar(path, [], link="data_batch_1.bin")
    assert "neither a file nor a folder" in refused(path)
    dataset_files.tar(path, [("a/data_batch_1.bin", bytes(3073)), ("b/data_batch_1.bin", bytes(3073))])
    assert "twice" in refused(path)


def test_a_file_with_holes_in_an_archive_is_refused(tmp_path):
    """Its real size is only claimed: reading it would take all memory there is."""
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in (f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)):
            info = tarfile.TarInfo(name)
            info.size = 512
            claimed = {"major": "1", "minor": "0", "name": name, "realsize": str(3073 * 100)}
            info.pax_headers = {f"GNU.sparse.{key}": value for key, value in claimed.items()}
            archive.addfile(info, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    assert "'cifar-10-batches-bin/data_batch_1.bin' is a file with holes" in refused(path)


def test_a_long_row_of_digits_in_a_header_is_refused_at_once(tmp_path):
    path = tmp_path / "slow.npz"
    npz_with(path, x=claims("(" + "1" * 36 + "x"), y=npy(np.zeros(1)))
    started = time.perf_counter()
    assert "its header is damaged" in refused(path)
    assert time.perf_counter() - started < 1


def test_mosaics_hold_no_more_pixels_together_than_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "many.npz"
    pictures_ = {f"train_{i:03}": dataset_files.png(np.zeros((64, 64, 3), np.uint8)) for i in range(8)}
    np.savez(path, y_train=np.arange(32) % 10, y_test=np.zeros(0, np.int64), **pictures_)
    assert len(load(path)) == 32
    monkeypatch.setattr(files, "MOST_BYTES", 8 * 64 * 64 * 3 - 1)
    assert "of pixels" in refused(path)


def test_pictures_to_predict_are_no_more_together_than_the_limit(tmp_path, monkeypatch):
    for name in "abc":
        dataset_files.picture(tmp_path / f"{name}.png", np.zeros((32, 32, 3), np.uint8))
    assert len(read_inputs(tmp_path)) == 3
    monkeypatch.setattr(files, "MOST_BYTES", 3 * 32 * 32 * 3 - 1)
    with pytest.raises(InputError, match="of pixels"):
        read_inputs(tmp_path)


GOOD_LABELS = dataset_files.idx_bytes(np.arange(5, dtype=np.uint8))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (GOOD_LABELS[:-1], "5 bytes should follow its header, but 4 do"),
        (GOOD_LABELS[:-1] + b"\x0a", "label 10, but there are 10 classes"),
        (b"\0\0\x0d" + GOOD_LABELS[3:], "not an idx file"),
        (dataset_files.idx_bytes(np.zeros(4, np.uint8)), "5 images, but 4 labels"),
        (None, "'train-labels-idx1-ubyte' (or .gz) is missing"),
    ],
    ids=("cut off", "label too large", "another type", "too few", "missing"),
)
def test_an_idx_file_of_labels_is_refused_with_its_defect(tmp_path, labels, message):
    dataset_files.mnist_folder(tmp_path, packed=False)
    path = tmp_path / "train-labels-idx1-ubyte"
    if labels is None:
        path.unlink()
    else:
        path.write_bytes(labels)
    assert message in refused(tmp_path)


def test_an_idx_file_of_images_that_claims_too_much_is_refused(tmp_path):
    dataset_files.mnist_folder(tmp_path, packed=False)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 2**31, 2**31, 2**31))
    assert "at most 4096 a side" in refused(tmp_path)


MAT_X, MAT_Y = dataset_files.images(3).transpose(1, 2, 3, 0), np.array([[1], [2], [3]])


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"X": MAT_X}, "no numeric array 'y'"),
        ({"X": MAT_X, "y": np.array([[1], [2], [11]])}, "labels are 1 to 10"),
        ({"X": MAT_X, "y": np.array([[0], [2], [3]])}, "labels are 1 to 10"),
        ({"X": MAT_X, "y": np.array([[1], [2]])}, "3 images, but 2 labels"),
        ({"X": MAT_X[:16], "y": MAT_Y}, "images of 32×32 pixels"),
        ({"X": MAT_X.astype(float), "y": MAT_Y}, "images of 32×32 pixels"),
        ({"X": MAT_X, "y": np.array([[1.5], [2], [3]])}, "whole numbers"),
        ({"X": MAT_X, "y": np.array([[1, "a", 2]], dtype=object)}, "not an array of real numbers"),
        ({"X": MAT_X + 1j, "y": MAT_Y}, "not an array of real numbers"),
    ],
    ids=("no labels", "label 11", "label 0", "too few", "low", "of float", "half", "objects", "complex"),
)
def test_a_mat_file_is_refused_with_its_defect(tmp_path, stored, message):
    from scipy.io import savemat

    savemat(tmp_path / "t.mat", stored)
    assert message in refused(tmp_path / "t.mat")


def test_a_mat_file_of_version_7_3_is_refused(tmp_path):
    (tmp_path / "t.mat").write_bytes(b"MATLAB 7.3".ljust(124) + b"\x00\x02IM")
    assert "7.3 is HDF5" in refused(tmp_path / "t.mat")


def test_a_mat_file_that_claims_more_than_it_holds_is_refused(tmp_path):
    dataset_files.svhn_file(tmp_path / "t.mat", compressed=False)
    data = bytearray((tmp_path / "t.mat").read_bytes())
    at = data.index(struct.pack("<4i", 32, 32, 3, 4))
    data[at : at + 16] = struct.pack("<4i", 32, 32, 3, 2**30)
    (tmp_path / "t.mat").write_bytes(data)
    assert "says it has the shape" in refused(tmp_path / "t.mat")


def test_a_mat_file_of_zeros_is_refused(tmp_path):
    path = tmp_path / "train_32x32.mat"
    dataset_files.svhn_file(path)
    path.write_bytes(gzip.compress(path.read_bytes()[:128] + bytes(80)))
    assert "damaged or cut off" in refused(path)


def test_a_mat_file_that_is_cut_after_its_arrays_is_refused(tmp_path):
    from scipy.io import savemat

    arrays = {"X": dataset_files.images(1).transpose(1, 2, 3, 0), "y": np.array([[1]], np.uint8)}
    savemat(tmp_path / "t.mat", {**arrays, "other": np.zeros(100)})
    whole = (tmp_path / "t.mat").read_bytes()
    (tmp_path / "t.mat").write_bytes(whole[:-8])
    assert "damaged or cut off" in refused(tmp_path / "t.mat")
    packed = zlib.compress(whole[128:])[:-4]  # all of it, but without its checksum
    (tmp_path / "t.mat").write_bytes(whole[:128] + struct.pack("<II", 15, len(packed)) + packed)
    assert "damaged or cut off" in refused(tmp_path / "t.mat")


NPZ_X, NPZ_Y = npy(np.zeros((2, 3))), npy(np.array([0, 1]))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x": NPZ_X}, "no 'y'"),
        ({"x": npy(np.array([{}, {}], dtype=object)), "y": NPZ_Y}, "something other than numbers or text"),
        ({"x": npy(np.zeros(2, dtype="f8,i4")), "y": NPZ_Y}, "something other than numbers or text"),
        ({"x": NPZ_X[:-1], "y": NPZ_Y}, "says it has the shape"),
        ({"x": claims("(1000000000000, 1000000)"), "y": NPZ_Y}, "says it has the shape"),
        ({"x": b"nonsense", "y": NPZ_Y}, "not an array as numpy writes them"),
        ({"x": npy(np.zeros((3, 3))), "y": NPZ_Y}, "do not fit"),
        ({"x": npy(np.array([[1.0], [np.nan]])), "y": NPZ_Y}, "row 1 holds nan: inputs must be finite"),
        ({"x": npy(np.array(["a", "b"])), "y": NPZ_Y}, "inputs must be numbers"),
        ({"x": NPZ_X, "y": npy(np.array([0.5, 1]))}, "whole numbers"),
        ({"x": NPZ_X, "y": npy(np.array([0, -1]))}, "row 1 has label -1: labels must be"),
        ({"x": NPZ_X, "y": NPZ_Y, "users": npy(np.array(["a"]))}, "users of shape"),
        ({"x": NPZ_X, "y": NPZ_Y, "..SLASHevil": NPZ_Y}, "refused"),
        ({"q": NPZ_Y}, "none of the known formats"),
    ],
    ids=(
        "no labels", "objects", "records", "cut off", "claims", "nonsense", "too many", "nan", "texts", "half",
        "negative", "users", "name", "unknown",
    ),
)  # fmt: skip
def test_an_npz_file_is_refused_with_its_defect(tmp_path, members, message):
    npz_with(tmp_path / "t.npz", **members)
    assert message in refused(tmp_path / "t.npz")


def test_an_npz_file_that_holds_a_name_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", NPZ_Y)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", NPZ_Y)
    assert "twice" in refused(tmp_path / "t.npz")


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 100_000)
    bomb = bytes(1_000_000)
    npz_with(tmp_path / "b.npz", x=bomb)
    assert "976.56 KB when unpacked: at most 97.66 KB" in refused(tmp_path / "b.npz")
    dataset_files.mnist_folder(tmp_path / "m")
    (tmp_path / "m" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bomb))
    with pytest.raises(InputError, match=r"more than 97\.66 KB when unpacked"):
        load(tmp_path / "m")
    dataset_files.tar(tmp_path / "cifar-10-binary.tar.gz", [("a/readme", bomb)])
    assert "more than 97.66 KB" in refused(tmp_path / "cifar-10-binary.tar.gz")
    packed = zlib.compress(bomb)
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    (tmp_path / "b.mat").write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)
    assert "more than 97.66 KB when unpacked" in refused(tmp_path / "b.mat")


def test_a_picture_of_another_size_than_the_first_is_refused(tmp_path):
    dataset_files.picture(tmp_path / "a" / "1.png", dataset_files.images(1)[0])
    dataset_files.picture(tmp_path / "a" / "2.png", dataset_files.images(1)[0][:16])
    with pytest.raises(InputError, match=r"2\.png.*32×16 pixels, but the first picture has 32×32"):
        load(tmp_path)


def test_a_file_that_is_no_picture_is_refused_by_its_name(tmp_path):
    dataset_files.picture(tmp_path / "a" / "1.png", dataset_files.images(1)[0])
    (tmp_path / "a" / "2.png").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"2\.png.*damaged, or not a picture"):
        load(tmp_path)


def test_a_picture_of_more_pixels_than_the_limit_is_refused(tmp_path, monkeypatch):
    dataset_files.picture(tmp_path / "a" / "1.png", dataset_files.images(1)[0])
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1000)
    with pytest.raises(InputError, match="32×32 pixels: at most 1,000"):
        load(tmp_path)


def test_a_picture_far_over_the_limit_is_refused_without_a_warning(tmp_path):
    from PIL import Image

    (tmp_path / "a").mkdir()
    Image.new("1", (15_000, 15_000)).save(tmp_path / "a" / "big.png")  # 225 million pixels in 28 KB
    with pytest.raises(InputError, match=r"damaged|at most"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'label'"),
        ("label\n1\n", "no column of numbers"),
        ("a,label\n", "no rows"),
        ("a,a,label\n1,2,3\n", "'a' is there twice"),
        ("a,label\n1\n", "1 values, but 2 columns"),
        ("a,label\nx,1\n", "t.csv:2"),
        ("a,label\n1_0,1\n", "t.csv:2"),
        ("a,label\n1,1_0\n", "t.csv:2"),
        ("a,label\n1,1.5\n", "whole number as label"),
        ("a,label\n1,-1\n", "a label from 0"),
        ("a,label\nnan,1\n", "must be finite"),
        ("a,label\n1e99,1\n", "must be finite"),
        ("a,label\n1,99999999999\n", "label from 0"),
        ('a,label\n"1,1\n', "not a table"),
        ("a,label\n\udcff,1\n", "not text in UTF-8"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_table_is_refused_with_its_defect(tmp_path, text, message):
    (tmp_path / "t.csv").write_bytes(text.encode(errors="surrogateescape"))
    assert message in refused(tmp_path / "t.csv")


def test_a_number_that_is_too_large_is_refused_without_a_warning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1e40,1\n")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert "numbers must be finite" in refused(path)
        with pytest.raises(InputError, match="must be finite"):
            read_inputs(path)
    assert warned == []


def test_what_does_not_exist_or_is_of_no_known_format_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "none of the known formats" in refused(tmp_path / "empty")
    (tmp_path / "text.txt").write_text("hello")
    assert "none of the known formats" in refused(tmp_path / "text.txt")
    with pytest.raises(InputError, match="no data set"):
        load(tmp_path / "a\0b")


@functools.cache
def samples_of_formats(root):
    """One small file of each format, and what else must lie beside it."""
    made = {}
    dataset_files.cifar10_folder(root / "c10", 1)
    made["cifar10"] = root / "c10" / "data_batch_1.bin"
    entries = [(f"cifar-10-batches-bin/{f.name}", f.read_bytes()) for f in (root / "c10").iterdir()]
    dataset_files.tar(root / "cifar-10-binary.tar.gz", entries)
    made["tar"] = root / "cifar-10-binary.tar.gz"
    for name, packed in (("idx", False), ("idx.gz", True)):
        dataset_files.mnist_folder(root / name, packed=packed, side=4)
        made[name] = root / name / f"train-images-idx3-ubyte{'.gz' if packed else ''}"
    for name, packed in (("mat", False), ("mat-z", True)):
        dataset_files.svhn_file(root / f"{name}.mat", 1, packed)
        made[name] = root / f"{name}.mat"
    arrays: dict[str, Any] = {
        "x": np.arange(6.0).reshape(3, 2),
        "y": np.array([0, 1, 1]),
        "users": np.array(["a", "b", "c"]),
    }
    np.savez(root / "plain.npz", **arrays)
    np.savez_compressed(root / "packed.npz", **arrays)
    np.savez(
        root / "m.npz",
        train_000=dataset_files.png(dataset_files.images(1)[0]),
        y_train=np.array([0]),
        y_test=np.array([0]),
    )
    made |= {name: root / f"{name}.npz" for name in ("plain", "packed", "m")}
    (root / "t.csv").write_text("user,a,b,label\nu,1,2,0\nv,3,4,1\n")
    made["csv"] = root / "t.csv"
    dataset_files.picture(root / "pictures" / "cat" / "1.png", dataset_files.images(1)[0])
    made["picture"] = root / "pictures" / "cat" / "1.png"
    return made


KINDS = ("cifar10", "tar", "idx", "idx.gz", "mat", "mat-z", "plain", "packed", "m", "csv", "picture")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return samples_of_formats(tmp_path_factory.mktemp("formats"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:overflow")
@given(data=st.data())
def test_damage_is_either_harmless_or_an_input_error(made, kind, data):
    path: Path = made[kind]
    whole = path.read_bytes()
    changed = bytearray(whole)
    # headers and directories are where damage hurts: half of it goes to the first and last 300 bytes
    places = st.one_of(
        st.integers(0, len(whole) - 1), st.integers(0, 300), st.integers(len(whole) - 300, len(whole) - 1)
    )
    for place in data.draw(st.lists(places, max_size=4)):
        changed[place % len(whole)] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(whole) - 1)))
    damaged = bytes(changed[:cut])
    result = ""
    try:
        path.write_bytes(damaged)
        assert isinstance(load(path.parent.parent if kind == "picture" else path), Dataset)
    except InputError as error:
        result = str(error)
    finally:
        path.write_bytes(whole)
    assert "\n" not in result


@pytest.mark.parametrize("kind", KINDS)
def test_undamaged_samples_are_read(made, kind):
    path = made[kind]
    assert len(load(path.parent.parent if kind == "picture" else path)) > 0
