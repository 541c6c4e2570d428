"""The public calls of a device."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from cause.engine.keywords import checks_arguments
from cause.errors import HomeError

if TYPE_CHECKING:
    from cause.device.home.home import Home
    from cause.engine.state import State


class Closable(Protocol):
    """A device, which may have a home and may be closed."""

    home: "Home | None"
    state: "State"
    is_closed: bool


D = TypeVar("D", bound=Closable)
P = ParamSpec("P")
R = TypeVar("R")


def device_call(method: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
    """Return a method of a device that refuses unknown arguments, and every call once the device is closed.

    A device in memory has nothing to close but its workers, so it can be used on. If an error of the disk left the
    device half loaded, it is loaded again first.
    """
    checked = cast(Any, checks_arguments(method))

    @wraps(method)
    def call(self: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.home is not None and self.is_closed:
            folder = str(self.home.layout.folder)
            raise HomeError(f"this device is closed: open its home again with Cause({folder!r})")
        self.state.ensure_loaded()
        result: R = checked(self, *args, **kwargs)
        return result

    return call
