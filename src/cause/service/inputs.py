"""Parsing request bodies: in memory, with limits on sizes, and without unpickling or evaluating anything."""

import io
import json
import math
import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cause.common.names import LONGEST_USER_ID, normal_name
from cause.common.units import format_bytes
from cause.common.zeroize import wipe_arrays
from cause.data.dataset import labels_of
from cause.data.npz import ARRAYS, inputs_of, refuse_unknown
from cause.data.pictures import decode
from cause.data.zipped import MOST_ENTRIES, Arrays
from cause.engine.learner import Learner
from cause.errors import InputError
from cause.service.csv_body import read_table
from cause.service.json_keys import refuse_duplicate_keys, unique_pairs
from cause.service.problems import ProblemError
from cause.service.schemas import CloseRound, Erasure, StartRepair

MOST_SAMPLES = 100_000
MOST_JSON = 4_096
"""Samples in one JSON body."""
MOST_LISTS = 2 * (MOST_JSON + 1)
"""Lists and objects that so many samples and the body itself consist of."""
MOST_PAIRS = 10_000
"""Pairs of round and position in one erasure."""
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/bmp")
NPZ, TENSORS, JSON, CSV = "application/x-npz", "application/vnd.safetensors", "application/json", "text/csv"
LARGEST = 1e9  # number in JSON; float32 can hold it
HEADER_BYTES = 65_536
ENTRY = b"PK\x01\x02"
"""The first bytes of each entry in the directory of a zip file."""
TENSOR_TYPES = {
    "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "?",
}  # fmt: skip

Model = TypeVar("Model", bound=BaseModel)
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Row = Annotated[list[Number], Field(min_length=1, max_length=2**20)]

PARSED_BYTES = 16
"""Memory that a byte of JSON may take once it is parsed: two bytes can be a number, and a number is an object."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    dtype: Literal["float32", "uint8"] = "float32"


class _Sample(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    x: Row
    y: Annotated[int, Field(ge=0, lt=1_000_000)]


class _NamedSample(_Sample):
    user: Annotated[str, Field(min_length=1, max_length=LONGEST_USER_ID)]


class _NamedSamples(_Body):
    samples: Annotated[list[_NamedSample], Field(min_length=1, max_length=MOST_JSON)]


class _Samples(_Body):
    samples: Annotated[list[_Sample], Field(min_length=1, max_length=MOST_JSON)]


class _Inputs(_Body):
    inputs: Annotated[list[Row], Field(min_length=1, max_length=MOST_JSON)]


@dataclass(frozen=True)
class InputLayout:
    """The shape of a device's inputs, as far as its settings or its learner fix it, and the number of classes."""

    values: int | None
    """Values of one input; None if any number is accepted."""
    shape: tuple[int, ...] | None
    """Shape of one input; None if it is a plain row."""
    classes: int

    @classmethod
    def of(cls, learner: Learner, classes: int, shape: tuple[int, ...] | None = None) -> "InputLayout":
        """Return the layout of a device: of the shape in its settings, or else of its learner."""
        if shape is not None:
            return cls(math.prod(shape), shape, classes)
        if learner.recipe is not None:
            shape = tuple(int(side) for side in learner.recipe.shape)
            return cls(math.prod(shape), shape, classes)
        return cls(learner.features, None, classes)


class NamedBytes(io.BytesIO):
    """A body that error messages call "the body"."""

    def __str__(self) -> str:
        return "the body"


class SampleReader:
    """Reads samples out of bodies for one device. All methods raise a `ProblemError` for a body that does not fit.

    Parameters
    ----------
    layout
        What the inputs must look like.
    unpacked_bytes
        What the samples of one body may take in memory.
    """

    def __init__(self, layout: InputLayout, unpacked_bytes: int) -> None:
        self.layout, self._most_bytes = layout, unpacked_bytes

    def read_labelled(
        self, kind: str, body: bytes, label: int | None, *, one_user: bool = False
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return inputs and labels.

        Parameters
        ----------
        kind
            The content type.
        body
            The body.
        label
            The label of a picture, from the query; None for other forms.
        one_user
            Refuse a body that names users itself.
        """
        x, y = self._read(kind, body, label, labels=True, refused=("users", "user") if one_user else ())
        assert y is not None
        return self._check_labels(x, y)

    def read_bulk(self, kind: str, body: bytes) -> tuple[NDArray[Any], NDArray[np.int64], list[str]]:
        """Return inputs, labels, and the user of each sample in normal form."""
        kind = kind.partition(";")[0].strip().lower()
        try:
            if kind == JSON:
                x, y, users = self._bulk_json(body)
            elif kind == NPZ:
                x, y, users = self._bulk_npz(body)
            elif kind == CSV:
                x, labels, users = read_table(body, MOST_SAMPLES, self._most_bytes, labels=True, users=True)
                assert labels is not None
                x, y = self._shaped(x), labels
            else:
                forms = f"{JSON}, {NPZ}, {CSV}"
                raise ProblemError(415, f"samples of several users come as {forms}", {"Accept-Post": forms})
            x, y = self._check_labels(self._check_inputs(x), y)
            if len(users) != len(y):
                raise ProblemError(422, f"{len(y)} samples, but {len(users)} users")
            names = {user: normal_name(user) for user in set(users)}
        except InputError as error:
            raise ProblemError(422, str(error)) from None
        return x, y, [names[user] for user in users]

    def read_rows(self, kind: str, body: bytes) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Return inputs, and labels if the body has some. A body that names users itself is refused."""
        x, y = self._read(kind, body, None, labels=None, refused=("users", "user"))
        return (x, None) if y is None else self._check_labels(x, y)

    def _check_labels(self, x: NDArray[Any], y: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if len(x) != len(y):
            raise ProblemError(422, f"{len(x)} inputs, but {len(y)} labels")
        if len(y) and int(y.max()) >= self.layout.classes:
            detail = f"label {int(y.max())}, but there are {self.layout.classes} classes (from 0)"
            raise ProblemError(422, f"{detail}: row {int(y.argmax())}")
        return x, y

    def read_inputs(self, kind: str, body: bytes) -> NDArray[Any]:
        """Return inputs; a body with labels is refused where the form allows to tell."""
        return self._read(kind, body, None, labels=False)[0]

    def _read(
        self, kind: str, body: bytes, label: int | None, *, labels: bool | None, refused: Sequence[str] = ()
    ) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """Return inputs and labels: `labels` says that they must be there, must not, or may (None)."""
        kind = kind.partition(";")[0].strip().lower()
        if label is not None and kind not in PICTURES:
            raise ProblemError(422, "?label= is for one picture: other forms bring their labels along")
        try:
            if kind == JSON:
                x, y = self._json(body, labels)
            elif kind == NPZ:
                x, y = self._npz(body, labels, refused)
            elif kind == TENSORS:
                x, y = self._tensors(body, labels, refused)
            elif kind == CSV:
                x, y, _ = read_table(body, MOST_SAMPLES, self._most_bytes, labels=labels, users=False)
                x = self._shaped(x)
            elif kind in PICTURES:
                x, y = self._picture(body, label, bool(labels))
            else:
                forms = ", ".join((JSON, NPZ, TENSORS, CSV, *PICTURES))
                raise ProblemError(415, f"samples come as {forms}", {"Accept-Post": forms})
        except InputError as error:
            raise ProblemError(422, str(error)) from None
        return self._check_inputs(x), y

    def _bulk_json(self, body: bytes) -> tuple[NDArray[Any], NDArray[np.int64], list[str]]:
        self._refuse_long_json(body)
        try:
            parsed = _NamedSamples.model_validate_json(body)
            refuse_duplicate_keys(body)
        except ValidationError as error:
            raise ProblemError(422, "the body is not as the schema says", errors=validation_errors(error)) from None
        x = self._rows([sample.x for sample in parsed.samples], parsed.dtype)
        return x, np.array([s.y for s in parsed.samples], dtype=np.int64), [s.user for s in parsed.samples]

    def _bulk_npz(self, body: bytes) -> tuple[NDArray[Any], NDArray[np.int64], list[str]]:
        arrays = self._arrays(body, ("x", "y", "users"))
        users = arrays["users"]
        if users.ndim != 1 or users.dtype.kind not in "Uiu":
            raise ProblemError(422, f"users are a list of names, not {users.dtype} of shape {users.shape}")
        return self._numbers(arrays["x"]), labels_of(arrays["y"], "the body"), users.astype(np.str_).tolist()

    def _refuse_long_json(self, body: bytes) -> None:
        if len(body) * PARSED_BYTES > self._most_bytes:
            most = self._most_bytes // PARSED_BYTES
            raise ProblemError(413, f"{len(body):,} bytes of JSON are more than {most:,}: send npz or safetensors")
        if body.count(b"[") + body.count(b"{") > MOST_LISTS:  # two bytes of JSON can be a list of 256
            raise ProblemError(422, f"at most {MOST_JSON:,} samples come as JSON: send npz or safetensors")

    def _json(self, body: bytes, labels: bool | None) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        self._refuse_long_json(body)
        if labels is None:
            labels = b'"samples"' in body  # inputs without labels have another key
        try:
            if labels:
                parsed = _Samples.model_validate_json(body)
                refuse_duplicate_keys(body)
                x = self._rows([sample.x for sample in parsed.samples], parsed.dtype)
                return x, np.array([sample.y for sample in parsed.samples], dtype=np.int64)
            unlabelled = _Inputs.model_validate_json(body)
            refuse_duplicate_keys(body)
            return self._rows(unlabelled.inputs, unlabelled.dtype), None
        except ValidationError as error:
            raise ProblemError(422, "the body is not as the schema says", errors=validation_errors(error)) from None

    def _rows(self, rows: list[list[float]], dtype: str) -> NDArray[Any]:
        values = self.layout.values or len(rows[0])
        for row in rows:
            if len(row) != values:
                raise ProblemError(422, f"an input has {len(row)} values, not {values}")
        numbers = np.array(rows, dtype=np.float64)
        if dtype == "uint8":
            if not ((numbers >= 0) & (numbers <= 255) & (numbers == np.floor(numbers))).all():
                raise ProblemError(422, "with dtype uint8 every value is a whole number from 0 to 255")
            x: NDArray[Any] = numbers.astype(np.uint8)
        else:
            x = numbers.astype(np.float32)
        wipe_arrays(numbers)
        return self._shaped(x)

    def _shaped(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return rows in the shape of the device's inputs, if they have as many values."""
        fits = self.layout.shape is not None and x.shape[1] == self.layout.values
        return x.reshape(-1, *self.layout.shape) if fits and self.layout.shape is not None else x

    def _arrays(self, body: bytes, needed: Sequence[str], refused: Sequence[str] = ()) -> Arrays:
        if body.count(ENTRY) > MOST_ENTRIES:  # checked before parsing: a body full of entries takes seconds
            raise ProblemError(422, f"an npz file has at most {MOST_ENTRIES:,} arrays")
        arrays = Arrays(NamedBytes(body), self._most_bytes)
        _refuse_users(refused, arrays)
        for name in needed:
            if name not in arrays:
                raise ProblemError(422, f"there is no array {name!r} in the npz file")
        refuse_unknown(arrays, arrays.path, ARRAYS)
        return arrays

    def _npz(
        self, body: bytes, labels: bool | None, refused: Sequence[str]
    ) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        arrays = self._arrays(body, ("x", "y") if labels else ("x",), refused)
        has_labels = labels or (labels is None and "y" in arrays)
        return self._numbers(arrays["x"]), labels_of(arrays["y"], "the body") if has_labels else None

    def _numbers(self, x: NDArray[Any]) -> NDArray[Any]:
        return inputs_of(x, NamedBytes())  # type: ignore[arg-type]

    def _tensors(
        self, body: bytes, labels: bool | None, refused: Sequence[str]
    ) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        tensors = _safetensors(body, self._most_bytes)
        _refuse_users(refused, tensors)
        for name in ("x", "y") if labels else ("x",):
            if name not in tensors:
                raise ProblemError(422, f"there is no tensor {name!r}")
        refuse_unknown(tensors, NamedBytes(), ARRAYS)
        has_labels = labels or (labels is None and "y" in tensors)
        return self._numbers(tensors["x"]), labels_of(tensors["y"], "the body") if has_labels else None

    def _picture(self, body: bytes, label: int | None, labels: bool) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        if labels and label is None:
            raise ProblemError(422, "a picture needs its label: ?label=3")
        x = decode(body, "the body", max(1, self._most_bytes // 12))[None]
        shape = self.layout.shape
        if shape is not None and len(shape) == 3:
            if x.ndim == 3 and shape[0] == 3:
                x = np.stack([x] * 3, axis=-1)
            if x.ndim == 4 and shape[0] == 1:
                x = np.rint(x.mean(axis=-1)).astype(np.uint8)
            high, wide = x.shape[1:3]
            if (high, wide) != shape[1:]:
                raise ProblemError(422, f"a picture of {wide}×{high} pixels, not {shape[2]}×{shape[1]}")
        return x, None if label is None else np.array([label], dtype=np.int64)

    def _check_inputs(self, x: NDArray[Any]) -> NDArray[Any]:
        if x.ndim < 2 or not x.size:
            raise ProblemError(422, f"inputs of shape {x.shape}: one row a sample is needed")
        if len(x) > MOST_SAMPLES:
            raise ProblemError(413, f"{len(x):,} samples at once: at most {MOST_SAMPLES:,}")
        if x.nbytes > self._most_bytes:
            raise ProblemError(413, f"inputs of {format_bytes(x.nbytes)}: at most {format_bytes(self._most_bytes)}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            row = int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
            raise ProblemError(422, f"inputs must be finite: row {row} is not")
        values = math.prod(x.shape[1:])
        if self.layout.values is not None and values != self.layout.values:
            raise ProblemError(422, f"an input has {values} values, not {self.layout.values}")
        return x


def _refuse_users(refused: Sequence[str], names: Container[str]) -> None:
    for name in refused:
        if name in names:
            raise ProblemError(
                422,
                f"it says itself whose its samples are: upload it to /v1/samples, or leave out {name!r} where all of "
                "them are this user's",
            )


def _safetensors(body: bytes, most: int) -> dict[str, NDArray[Any]]:
    """Return tensors by name. The format is a length, a header in JSON, and the bytes of the tensors."""
    if len(body) < 8:
        raise ProblemError(422, "not safetensors: too short")
    (length,) = struct.unpack_from("<Q", body)
    if length > min(HEADER_BYTES, len(body) - 8):
        raise ProblemError(422, f"not safetensors: a header of {length:,} bytes")
    try:
        header = json.loads(body[8 : 8 + length], object_pairs_hook=unique_pairs)
        header.pop("__metadata__", None)
        items = list(header.items())
        if len(items) > 16:
            raise ValueError
        tensors = {}
        for name, entry in items:
            dtype, shape, (start, stop) = np.dtype(TENSOR_TYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
            sides = [int(side) for side in shape]
            data_bytes = len(body) - 8 - length
            if min(sides, default=0) < 0 or len(sides) > 8 or not 0 <= start <= stop <= data_bytes:
                raise ValueError
            if math.prod(sides) * dtype.itemsize != stop - start or stop - start > most:
                raise ValueError
            values = np.frombuffer(body, dtype, offset=8 + length + start, count=math.prod(sides))
            tensors[str(name)] = values.reshape(sides)
        return tensors
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ProblemError(422, "not safetensors, or damaged") from None


def parse_erasure(kind: str, body: bytes) -> Erasure:
    """Return the erasure in a body; a `ProblemError` 422 if it is not one."""
    kind = kind.partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise ProblemError(422, f"what to forget comes as {JSON}")
    if body.count(b"[") + body.count(b"{") > MOST_PAIRS + 3:  # checked before parsing, as for samples
        raise ProblemError(422, f"at most {MOST_PAIRS:,} samples are named at once")
    return parse_json(Erasure, body)


def parse_close_round(body: bytes) -> CloseRound:
    """Return how a round is to be closed; an empty body means the defaults.

    >>> parse_close_round(b"").empty, parse_close_round(b'{"empty": true}').empty
    (False, True)
    """
    return parse_json(CloseRound, body or b"{}")


def parse_start_repair(body: bytes) -> StartRepair:
    """Return what is to be repaired; an empty body means the defaults.

    >>> parse_start_repair(b"").from_scratch, parse_start_repair(b'{"from_scratch": [2]}').from_scratch
    ([], [2])
    """
    return parse_json(StartRepair, body or b"{}")


def parse_json(model: type[Model], body: bytes) -> Model:
    """Return a body in JSON as a model; a `ProblemError` 422 if it is not one, or names a key twice."""
    try:
        parsed = model.model_validate_json(body)
        refuse_duplicate_keys(body)
        return parsed
    except ValidationError as error:
        raise ProblemError(422, "the request is not as the schema says", errors=validation_errors(error)) from None


def validation_errors(error: ValidationError) -> list[dict[str, Any]]:
    """Return what is wrong and where, without the values that were sent."""
    return [
        {"where": ".".join(map(str, item["loc"])), "message": item["msg"]}
        for item in error.errors(include_url=False, include_context=False, include_input=False)[:20]
    ]
