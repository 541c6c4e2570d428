"""Real tables and recordings that come inside Python packages, for measuring: nothing of them is in this repository.

A package that is not installed is skipped. Installed without their dependencies they do: only data files and, of
`seglearn`, its own reader are used. Recordings are cut into windows, and each window becomes statistics in the units of
its channels, as phones compute them.
"""

import csv
import importlib.util
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW, STEP = 100, 50
"""Of the watch: two seconds at 50 Hz, half overlapping."""


@dataclass(frozen=True)
class Recorded:
    """Rows, classes and what each row belongs to: a person, or a number for those of a given split."""

    name: str
    source: str
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    test: NDArray[np.bool_]


def statistics(windows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Statistics of windows of shape (count, time, channels): moments, ends, energies of bands, and correlations."""
    x = windows.astype(np.float64)
    mean, deviation = x.mean(axis=1), x.std(axis=1)
    centred = x - mean[:, None]
    bands = np.abs(np.fft.rfft(centred, axis=1))[:, 1:33] ** 2
    energies = bands.reshape(len(x), 8, -1, x.shape[2]).mean(axis=2).reshape(len(x), -1)
    scaled = centred / np.maximum(deviation, 1e-9)[:, None]
    correlations = np.einsum("nti,ntj->nij", scaled, scaled) / x.shape[1]
    upper = np.triu_indices(x.shape[2], 1)
    steps = np.abs(np.diff(x, axis=1)).mean(axis=1)
    parts = [mean, deviation, x.min(axis=1), x.max(axis=1), steps, energies, correlations[:, upper[0], upper[1]]]
    return np.concatenate(parts, axis=1)


def folder_of(package: str) -> Path | None:
    """The folder of an installed package; None without it."""
    found = importlib.util.find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def watch(seed: int) -> Recorded | None:
    """Seven exercises of people with a smartwatch (seglearn's, Burns and others 2018); three of ten people are new."""
    folder = folder_of("seglearn")
    if folder is None:
        return None
    spec = importlib.util.spec_from_file_location("seglearn_datasets", folder / "datasets.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # its package needs more than its reader does
    data = module.load_watch()
    windows, y, people = [], [], []
    for series, label, person in zip(data["X"], data["y"], data["subject"], strict=True):
        for start in range(0, len(series) - WINDOW + 1, STEP):
            windows.append(series[start : start + WINDOW])
            y.append(int(label))
            people.append(int(person))
    names = np.unique(people)
    new = np.random.default_rng([seed, 7]).permutation(names)[: max(1, round(0.3 * len(names)))]
    x = statistics(np.stack(windows))
    return Recorded("exercises with a watch, new people", "seglearn", x, np.array(y), np.isin(people, new))


def motions(name: str, title: str) -> Recorded | None:
    """Recordings of several channels with a given split (aeon's): statistics of each whole recording."""
    folder = folder_of("aeon")
    if folder is None:
        return None
    windows, labels, test = [], [], []
    for split in ("TRAIN", "TEST"):
        lines = (folder / "datasets" / "data" / name / f"{name}_{split}.ts").read_text().splitlines()
        for line in (line for line in lines if line.strip() and line[0] not in "#@"):
            *channels, label = line.split(":")
            windows.append(np.array([channel.split(",") for channel in channels], dtype=np.float64).T)
            labels.append(label)
            test.append(split == "TEST")
    y = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return Recorded(title, "aeon", statistics(np.stack(windows)), y, np.array(test))


def segments(seed: int) -> Recorded | None:
    """Regions of outdoor pictures as 18 values in mixed units (UCI's Image Segmentation, in river)."""
    folder = folder_of("river")
    if folder is None:
        return None
    with zipfile.ZipFile(folder / "datasets" / "segment.csv.zip") as archive:
        lines = archive.read(archive.namelist()[0]).decode().splitlines()
    _, *rows = csv.reader(lines)
    x = np.array([row[:-1] for row in rows], dtype=np.float64)
    y = np.unique([row[-1] for row in rows], return_inverse=True)[1].astype(np.int64)
    test = np.random.default_rng([seed, 8]).random(len(y)) < 0.3
    return Recorded("regions of pictures", "river", x, y, test)


def recordings(seed: int) -> Iterator[Recorded]:
    """All sets whose packages are installed."""
    for found in (watch(seed), segments(seed), motions("BasicMotions", "motions with a watch")):
        if found is not None:
            yield found
