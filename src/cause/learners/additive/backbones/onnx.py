"""An ONNX file as a backbone, computed by ONNX Runtime: no torch is needed on the device."""

import json
from functools import partial
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cause.common.heap import return_freed_memory
from cause.errors import InputError
from cause.learners.additive.backbones.base import REGULARIZATION, BackboneWithFacts, Facts
from cause.learners.additive.backbones.efficientnet_lite0 import is_picture, prepared

METADATA = "cause"
"""The key of an export's metadata: JSON with `scale`, and with `size` if pictures are scaled before."""


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"the backbone {str(path)!r} cannot be read: {error.strerror}") from None


class OnnxBackbone(BackboneWithFacts):
    """Computes features by a frozen ONNX file, one input at a time on one thread.

    Parameters
    ----------
    path
        The file. Its first output, flattened, is the features.
    digest
        The SHA-256 that it must have; None for any.

    Raises
    ------
    InputError
        If ONNX Runtime is not installed, or the file is missing, is another one or is no ONNX file.
    """

    def __init__(self, path: str | Path, digest: str | None = None) -> None:
        if find_spec("onnxruntime") is None:
            raise InputError("an .onnx backbone needs ONNX Runtime: pip install 'cause[additive]'")
        import onnxruntime

        self._path = Path(path)
        self._digest = _digest_of(self._path)
        if digest is not None and digest != self._digest:
            raise InputError(
                f"the backbone {str(path)!r} has the digest {self._digest[:16]}…, but the recipe names {digest[:16]}…"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            # by its path: of bytes the session would keep a copy
            self._session = onnxruntime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has exceptions of its own
            line = (str(error).splitlines() or [""])[0]
            raise InputError(f"the backbone {str(path)!r} is no ONNX file that can be run: {line}") from None
        if _digest_of(self._path) != self._digest:
            raise InputError(f"the backbone {str(path)!r} was changed while it was read: try again")
        (given, *_), self._output = self._session.get_inputs(), self._session.get_outputs()[0].name
        self._input, batch, shape = given.name, given.shape[:1], tuple(given.shape)[1:]
        if isinstance(batch[0] if batch else 0, int) and batch != [1]:
            raise InputError(
                f"the backbone {str(path)!r} takes {batch[0] if batch else 'no batch of'} inputs at once: "
                "export it with an open first dimension, or one of 1"
            )
        if not all(isinstance(side, int) for side in shape):
            raise InputError(f"the backbone {str(path)!r} leaves the shape of its input open: {shape}")
        settings = json.loads(self._session.get_modelmeta().custom_metadata_map.get(METADATA, "{}"))
        size = settings.get("size")
        self._prepare = None if size is None else partial(prepared, size=int(size))
        self.facts = Facts(
            shape,
            features=self._features_of(shape),
            scale=tuple(settings["scale"]) if "scale" in settings else None,
            regularization=float(settings.get("regularization", REGULARIZATION)),
            typical=tuple(settings["typical"]) if "typical" in settings else None,
        )
        return_freed_memory()  # the graph was optimised, and much of it copied

    def _features_of(self, shape: tuple[int, ...]) -> int:
        """Return how many features the file computes of an input; raise an `InputError` if it cannot compute one."""
        try:
            return int(self.compute(np.zeros((1, *shape), dtype=np.float32)).shape[1])
        except Exception as error:  # the runtime has exceptions of its own
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"the backbone {str(self._path)!r} cannot compute an input of zeros: {line}") from None

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether inputs of this shape can be converted."""
        return super().takes(shape) or (self._prepare is not None and is_picture(shape))

    @property
    def identity(self) -> dict[str, Any]:
        """The digest of the file, and ONNX Runtime."""
        return {"backbone": "onnx", "runtime": "onnxruntime", "sha256": self._digest}

    def described(self) -> dict[str, Any]:
        """Return its absolute path, the digest that the file must have when it is opened again, and what it yields."""
        facts: dict[str, Any] = {"features": self.features, "shape": list(self.input_shape)}
        facts |= {} if self.scale is None else {"scale": list(self.scale)}
        facts |= {} if self.typical is None else {"typical": list(self.typical)}
        facts["regularization"] = self.regularization
        return {"backbone": str(self._path.resolve()), "backbone_sha256": self._digest, "backbone_facts": facts}

    def compute(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the features of inputs."""
        rows = []
        for one in x:
            made = one[None].astype(np.float32) if self._prepare is None else self._prepare(one[None])
            rows.append(self._session.run([self._output], {self._input: made})[0].reshape(-1))
        return np.stack(rows)
