"""A backbone that cannot be loaded here: samples that are recorded need none."""

from collections.abc import Mapping
from typing import Any, NoReturn

from numpy.typing import NDArray

from cause.errors import InputError
from cause.learners.additive.backbones import efficientnet_lite0 as lite0
from cause.learners.additive.backbones.base import Backbone


class AbsentBackbone(Backbone):
    """Stands for a backbone whose file or runtime is missing: it says what the backbone is, and computes nothing.

    Features that are stored can be subtracted, added up and solved, so that a device still forgets and verifies.

    Parameters
    ----------
    reason
        Why it cannot be loaded.
    named
        The arguments with which `backbone_of` would find it.
    identity
        Everything that decides the features.
    facts
        What else the recipe needs: `features` and `shape`; `scale`, `typical` and `regularization` if it has them.
    """

    def __init__(
        self, reason: str, named: Mapping[str, Any], identity: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> None:
        self.reason = reason
        self._named, self._identity, self._facts = dict(named), dict(identity), dict(facts)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self._facts["shape"])

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return True: what is wrong is the backbone, and `compute` says so."""
        return True

    @property
    def features(self) -> int:
        """The number of features of one input."""
        return int(self._facts["features"])

    @property
    def scale(self) -> tuple[float, float] | None:
        """The range of the features, if it has one."""
        return _pair(self._facts.get("scale"))

    @property
    def regularization(self) -> float:
        """The λ of a ridge head that suits its features."""
        return float(self._facts.get("regularization", super().regularization))

    @property
    def typical(self) -> tuple[float, float] | None:
        """A typical feature and its deviation, if it has them."""
        return _pair(self._facts.get("typical"))

    @property
    def identity(self) -> dict[str, Any]:
        """That of the backbone."""
        return self._identity

    def described(self) -> dict[str, Any]:
        """Return the arguments with which the backbone would be found."""
        return self._named

    def compute(self, x: NDArray[Any]) -> NoReturn:
        """Raise an `InputError`: no features can be computed."""
        raise InputError(self.reason)


def absent_backbone(reason: str, description: Mapping[str, Any]) -> AbsentBackbone | None:
    """Return a stand-in for the backbone of a home's learner; None if the home does not say enough of it.

    Parameters
    ----------
    reason
        Why the backbone cannot be loaded.
    description
        The table `[learner]` of the home.
    """
    name = description.get("backbone")
    if name == "efficientnet-lite0":
        size = int(description.get("size", lite0.SIZE))
        return AbsentBackbone(reason, {"backbone": name}, lite0.identity_of(size), lite0.facts_of(size))
    sha256, facts = description.get("backbone_sha256"), description.get("backbone_facts")
    if not isinstance(name, str) or sha256 is None or not isinstance(facts, Mapping):
        return None
    named = {"backbone": name, "backbone_sha256": sha256, "backbone_facts": dict(facts)}
    return AbsentBackbone(reason, named, {"backbone": "onnx", "runtime": "onnxruntime", "sha256": sha256}, facts)


def _pair(numbers: Any) -> tuple[float, float] | None:
    if numbers is None:
        return None
    low, high = numbers
    return float(low), float(high)
