"""Every format is read back as it was written, by path and by name."""

import gzip

import numpy as np
import pytest

from cause.data import find, load, table
from cause.data import folder as folders
from cause.errors import InputError
from tests.data import dataset_files


def same(data, x, y):
    return np.array_equal(data.x, x) and np.array_equal(data.y, y) and data.y.dtype == np.int64


def test_cifar10_binary_is_read_from_its_folder_and_its_archive(tmp_path):
    x, y = dataset_files.cifar10_folder(tmp_path / "c")
    dataset_files.tar(
        tmp_path / "any.tar.gz",
        [(f"cifar-10-batches-bin/{file.name}", file.read_bytes()) for file in sorted((tmp_path / "c").iterdir())],
    )
    for path in (tmp_path / "c", tmp_path / "any.tar.gz"):
        train, test = load(path), load(path, "test")
        assert same(train, x[:15], y[:15])
        assert same(test, x[15:], y[15:])
        assert (train.name, train.split, train.classes, test.split) == ("cifar10", "train", 10, "test")
    assert same(load(tmp_path / "c" / "data_batch_2.bin"), x[3:6], y[3:6])


def test_cifar100_takes_the_fine_label(tmp_path):
    x, fine = dataset_files.cifar100_folder(tmp_path)
    assert same(load(tmp_path), x[:4], fine[:4])
    assert same(load(tmp_path, "test"), x[4:], fine[4:])
    assert load(tmp_path).classes == 100


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("count", [1, 12])
def test_svhn_is_read_as_scipy_wrote_it_and_ten_means_zero(tmp_path, compressed, count):
    x, y = dataset_files.svhn_file(tmp_path / "train_32x32.mat", count, compressed)
    for path in (tmp_path, tmp_path / "train_32x32.mat"):
        assert same(load(path), x, y)
    with pytest.raises(InputError, match="not the test split"):
        load(tmp_path / "train_32x32.mat", "test")


@pytest.mark.parametrize("kind", ["double", "other arrays beside"])
def test_a_mat_file_may_hold_labels_as_doubles_and_other_things(tmp_path, kind):
    from scipy.io import savemat

    x = dataset_files.images(3)
    more = {"note": "text", "cells": np.array([1, "a"], dtype=object)} if kind != "double" else {}
    savemat(tmp_path / "t.mat", {"X": x.transpose(1, 2, 3, 0), "y": np.array([[1.0], [2.0], [10.0]]), **more})
    assert same(load(tmp_path / "t.mat"), x, [1, 2, 0])


@pytest.mark.parametrize("packed", [True, False])
def test_idx_is_read_packed_and_plain(tmp_path, packed):
    made = dataset_files.mnist_folder(tmp_path / "fashion", packed=packed)
    assert same(load(tmp_path / "fashion"), *made["train"])
    assert same(load(tmp_path / "fashion", "test"), *made["t10k"])
    images = tmp_path / "fashion" / f"train-images-idx3-ubyte{'.gz' if packed else ''}"
    assert same(load(images), *made["train"])


def test_npz_with_or_without_splits_and_with_users(tmp_path):
    x, y = dataset_files.images(6), np.array([0, 1, 2, 0, 1, 2])
    np.savez(tmp_path / "one.npz", x=x, y=y.astype(np.uint8), users=np.array(list("aabbcc")))
    np.savez_compressed(
        tmp_path / "two.npz", x_train=x[:4], y_train=y[:4], x_test=np.asfortranarray(x[4:]), y_test=y[4:]
    )
    one = load(tmp_path / "one.npz")
    assert same(one, x, y)
    assert one.users is not None
    assert one.users.tolist() == list("aabbcc")
    assert (one.name, one.classes) == ("one", 3)
    assert same(load(tmp_path / "two.npz"), x[:4], y[:4])
    assert same(load(tmp_path / "two.npz", "test"), x[4:], y[4:])
    assert load(tmp_path / "two.npz", classes=7).classes == 7
    with pytest.raises(InputError, match="no 'x_test'"):
        load(tmp_path / "one.npz", "test")
    np.savez(tmp_path / "numbers.npz", x=np.arange(6).reshape(3, 2), y=[0, 1, 1])
    assert load(tmp_path / "numbers.npz").x.dtype == np.float32


@pytest.mark.parametrize("layout", ["mosaic", "strips"])
def test_mosaics_are_cut_into_their_images(tmp_path, layout):
    x, y = dataset_files.images(8), np.arange(8) % 3

    def mosaic(tiles, across):
        rows = tiles.reshape(-1, across, 32, 32, 3).transpose(0, 2, 1, 3, 4)
        return dataset_files.png(rows.reshape(-1, across * 32, 3))

    if layout == "mosaic":  # the last picture has a tile more than there are labels
        np.savez(
            tmp_path / "m.npz", train_000=mosaic(x[:4], 2), train_001=mosaic(x[4:6], 2), y_train=y[:5], y_test=y[6:],
            test_000=mosaic(x[6:], 2),
        )  # fmt: skip
        path, cut = tmp_path / "m.npz", 5
    else:
        np.savez(tmp_path / "m_part1.npz", s000=mosaic(x[:4], 1))
        more = np.concatenate([x[4:], x[:1]])  # an image more than there are labels
        np.savez(tmp_path / "m_part2.npz", s001=mosaic(more, 1), y_train=y[:6], y_test=y[6:])
        path, cut = tmp_path / "m_part1.npz", 6
    assert same(load(path), x[:cut], y[:cut])
    assert same(load(path, "test"), x[6:], y[6:])
    assert (load(path, "test").classes, load(path).name) == (3, "m")


def test_folders_of_classes_and_of_users(tmp_path):
    x = dataset_files.images(4)
    for i, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png")):
        dataset_files.picture(tmp_path / "plain" / name, x[i])
    plain = load(tmp_path / "plain")
    assert same(plain, x[:3], [0, 0, 1])
    assert (plain.classes, plain.users) == (2, None)
    for i, name in enumerate(
        ("train/alice/cat/a.png", "train/bob/cat/b.png", "train/bob/dog/c.png", "test/al/cat/d.png")
    ):
        dataset_files.picture(tmp_path / "users" / name, x[i])
    train = load(tmp_path / "users")
    assert same(train, x[:3], [0, 0, 1])
    assert train.users is not None
    assert train.users.tolist() == ["alice", "bob", "bob"]
    assert same(load(tmp_path / "users", "test"), x[3:], [0])
    named = folders.read(tmp_path / "users", "test", names=("bird", "cat", "dog"))
    assert (named.y.tolist(), named.classes) == ([1], 3)


def test_grey_pictures_stay_grey_and_mixed_ones_become_colour(tmp_path):
    x = dataset_files.images(1)[0]
    dataset_files.picture(tmp_path / "a" / "1.png", x[..., 0])
    assert load(tmp_path).x.shape == (1, 32, 32)
    dataset_files.picture(tmp_path / "b" / "2.png", x)
    assert same(load(tmp_path), np.stack([np.stack([x[..., 0]] * 3, -1), x]), [0, 1])


@pytest.mark.parametrize("packed", [False, True])
def test_tables_have_features_labels_and_users(tmp_path, packed):
    text = b'user,a,label,"b"\nu1,1,0,0.5\n"u,2",2,1,-1e3\n\n'
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    data = load(path)
    assert same(data, np.array([[1, 0.5], [2, -1000]], np.float32), [0, 1])
    assert data.users is not None
    assert data.users.tolist() == ["u1", "u,2"]
    assert data.name == "t"
    other = table.read(path, label="a", user="nobody", features=["b"])
    assert (other.x.shape, other.y.tolist(), other.users) == ((2, 1), [1, 2], None)


def test_a_name_is_found_below_the_root_and_its_official_count_is_demanded(tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSE_DATA", raising=False)
    with pytest.raises(InputError, match="where is mnist"):
        load("mnist")
    made = dataset_files.mnist_folder(tmp_path / "MNIST" / "raw", counts=(5, 10_000), side=2)
    assert find("mnist", root=tmp_path) == tmp_path / "MNIST" / "raw"
    monkeypatch.setenv("CAUSE_DATA", str(tmp_path))
    assert same(load("mnist", "test"), *made["t10k"])
    with pytest.raises(InputError, match="5 images, but mnist has 60,000 for train"):
        load("mnist")
    with pytest.raises(InputError, match="no svhn in"):
        load("svhn")
    dataset_files.svhn_file(tmp_path / "train_32x32.mat", 2)
    assert find("svhn") == tmp_path
    with pytest.raises(InputError, match="no data set 'nothing'"):
        load("nothing")
    with pytest.raises(InputError, match="unknown split 'valid'"):
        load("mnist", "valid")


def test_the_pickled_python_version_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"\x80\x02}.")
    with pytest.raises(InputError, match="is a pickle and is not read: take the binary version"):
        load(tmp_path / "cifar-10-batches-py")
    with pytest.raises(InputError, match=r"put 'cifar-10-batches-bin' .* is a pickle and is not read"):
        load("cifar10", root=tmp_path)
