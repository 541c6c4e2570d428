"""The cost of a sample on this machine: joules and seconds, from a straight line through measured runs."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import linear_regression
from typing import Any

from cause.common.files import write_text
from cause.common.statistics import student_t
from cause.errors import InputError, MeterError

MOST = 1e300  # of a number in a file: no NaN, no infinity, no integer that is no float


@dataclass(frozen=True)
class Line:
    """A least-squares line, with R² and the half width of the slope's 95 % confidence interval.

    >>> line = Line.through([1, 2, 3, 4], [3.1, 4.9, 7.1, 8.9])
    >>> round(line.slope, 2), round(line.intercept, 2), round(line.r2, 3), round(line.half_width, 2)
    (1.96, 1.1, 0.998, 0.24)
    """

    slope: float
    intercept: float
    r2: float
    half_width: float

    @classmethod
    def through(cls, xs: Sequence[float], ys: Sequence[float]) -> "Line":
        """Fit a line to points."""
        if len(xs) != len(ys) or len(xs) < 3 or len(set(xs)) < 2:
            raise InputError(f"a line needs three points or more of different sizes, not {len(xs)} of {len(set(xs))}")
        slope, intercept = linear_regression(xs, ys)
        mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
        off = math.fsum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
        spread = math.fsum((y - mean_y) ** 2 for y in ys)
        error = math.sqrt(off / (len(xs) - 2) / math.fsum((x - mean_x) ** 2 for x in xs))
        return cls(slope, intercept, 1 - off / spread if spread else 1.0, student_t(len(xs) - 2) * error)

    def at(self, samples: int, trainings: int) -> float:
        """Return the line's value for samples spread over several trainings; never below 0."""
        return max(0.0, self.slope * samples + self.intercept * trainings)


@dataclass(frozen=True)
class EnergyModel:
    """Turns retrained samples into joules and seconds, for one learner on one machine.

    A sample is counted once, as in RSN; its epochs are in the line. Joules are beyond idle power. `joules` is None
    where there was no meter, with the reason in `unavailable`.

    >>> model = EnergyModel("cnn", "RAPL package-0", Line(0.02, 0.5, 0.99, 0.001), Line(0.002, 0.0, 0.99, 0.0001))
    >>> model.joules(1000), model.joules(1000, trainings=2), model.seconds(1000)
    (20.0, 21.0, 2.0)
    """

    learner: str
    source: str
    joules_line: Line | None
    seconds_line: Line
    idle_watts: float | None = None
    unavailable: str | None = None
    machine: dict[str, Any] = field(default_factory=dict)

    def joules(self, samples: int, trainings: int = 0) -> float:
        """Return the energy of retraining so many samples; `trainings` adds the fixed cost of each segment."""
        if self.joules_line is None:
            raise MeterError(f"joules are unknown on this machine: {self.unavailable or 'no meter'}")
        return self.joules_line.at(samples, trainings)

    def seconds(self, samples: int, trainings: int = 0) -> float:
        """Return the time of retraining so many samples."""
        return self.seconds_line.at(samples, trainings)

    def as_dict(self) -> dict[str, Any]:
        """Return the model for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, payload: Any, source: object = "energy model") -> "EnergyModel":
        """Return the model that `as_dict` wrote."""
        if not isinstance(payload, dict) or set(payload) != {part.name for part in fields(cls)}:
            raise InputError(f"{str(source)!r} is not an energy model: make one with cause calibrate --out")
        lines = {name: payload[name] for name in ("joules_line", "seconds_line")}
        for name, line in lines.items():
            if line is None and name == "joules_line" and isinstance(payload["unavailable"], str):
                continue
            names = {part.name for part in fields(Line)}
            numbers = list(line.values()) if isinstance(line, dict) and set(line) == names else [None]
            if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) <= MOST for n in numbers):
                raise InputError(f"{str(source)!r}: {name!r} must be a line of finite numbers")
        made = {name: None if line is None else Line(**line) for name, line in lines.items()}
        return cls(**{**payload, **made})

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file."""
        write_text(path, json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "EnergyModel":
        """Read what `save` or `cause calibrate --out` wrote."""
        try:
            payload = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise InputError(f"{str(path)!r} is not JSON") from None
        result = payload.get("result") if isinstance(payload, dict) else None
        return cls.from_dict(result.get("model") if isinstance(result, dict) else payload, path)
