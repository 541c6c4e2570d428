"""Tiny files in the official formats, written byte by byte as their descriptions say."""

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np


def images(count, seed=0):
    """Colour images of 32×32 pixels."""
    return np.random.default_rng(seed).integers(0, 256, size=(count, 32, 32, 3), dtype=np.uint8)


def cifar_records(x, *labels):
    """One record an image: label bytes, then all red, all green, all blue."""
    planes = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return b"".join(bytes(int(of[i]) for of in labels) + planes[i].tobytes() for i in range(len(x)))


def cifar10_folder(folder, per_batch=3):
    """All six batches; returns the images and labels of both splits."""
    folder.mkdir(parents=True, exist_ok=True)
    x, y = images(6 * per_batch), np.arange(6 * per_batch) % 10
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for i, name in enumerate(names):
        cut = slice(i * per_batch, (i + 1) * per_batch)
        (folder / name).write_bytes(cifar_records(x[cut], y[cut]))
    return x, y


def cifar100_folder(folder, count=4):
    """Both splits, coarse label before the fine one."""
    folder.mkdir(parents=True, exist_ok=True)
    x, fine = images(2 * count), np.arange(2 * count) * 7 % 100
    for i, name in enumerate(("train.bin", "test.bin")):
        cut = slice(i * count, (i + 1) * count)
        (folder / name).write_bytes(cifar_records(x[cut], fine[cut] // 5, fine[cut]))
    return x, fine


def tar(path, entries, *, link=None):
    """A packed archive of (name, bytes)."""
    with tarfile.open(path, "w:gz") as archive:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info)


def idx_bytes(array):
    """An idx file of bytes."""
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_folder(folder, counts=(5, 3), packed=True, side=28):
    """Both splits."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for prefix, count in zip(("train", "t10k"), counts, strict=True):
        x = np.random.default_rng(count).integers(0, 256, size=(count, side, side), dtype=np.uint8)
        y = (np.arange(count) % 10).astype(np.uint8)
        for what, array in (("images-idx3", x), ("labels-idx1", y)):
            data = idx_bytes(array)
            name = f"{prefix}-{what}-ubyte"
            (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(data, 1) if packed else data)
        made[prefix] = x, y
    return made


def svhn_file(path, count=4, compressed=True):
    """By scipy, an implementation that is not ours; the label 10 means 0."""
    from scipy.io import savemat

    x, y = images(count), np.arange(1, count + 1) % 10
    stored = {"X": x.transpose(1, 2, 3, 0), "y": np.where(y == 0, 10, y).astype(np.uint8)[:, None]}
    savemat(path, stored, do_compression=compressed)
    return x, y


def picture(path: Path, pixels):
    """A picture file."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def png(pixels):
    """The bytes of a picture."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return np.frombuffer(out.getvalue(), np.uint8)
