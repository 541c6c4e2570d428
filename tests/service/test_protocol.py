"""`BoundedProtocol` uses parts of uvicorn that are not documented: these tests say which ones a new version lacks."""

import asyncio
import inspect
from importlib.metadata import requires, version
from typing import Any

import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from cause.service.protocol import bounded_protocol

OVERRIDDEN = {
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_body": ["body"],
    "on_message_complete": [],
    "on_response_complete": [],
    "send_400_response": ["msg"],
    "pause_writing": [],
    "resume_writing": [],
}
"""Methods of uvicorn's protocol that `BoundedProtocol` overrides, with their arguments."""
READ = {"connections", "cycle", "loop", "transport", "ws_protocol_class"}
"""Attributes of uvicorn's protocol that `BoundedProtocol` reads or sets."""
READ_OF_REQUESTS = {"disconnected", "message_event", "response_complete"}
"""Attributes of uvicorn's requests that `BoundedProtocol` reads or sets."""


def test_uvicorn_is_a_version_that_pyproject_allows():
    allowed = [Requirement(text) for text in requires("cause") or () if Requirement(text).name == "uvicorn"]
    assert allowed
    assert all(version("uvicorn") in requirement.specifier for requirement in allowed)


def test_uvicorn_calls_the_methods_that_are_overridden():
    source = inspect.getsource(HttpToolsProtocol)
    for name, arguments in OVERRIDDEN.items():
        method = getattr(HttpToolsProtocol, name, None)
        assert method is not None, f"uvicorn {version('uvicorn')} has no HttpToolsProtocol.{name}"
        assert list(inspect.signature(method).parameters)[1:] == arguments, f"HttpToolsProtocol.{name} has changed"
    assert "self.send_400_response(" in source, "uvicorn answers what is not HTTP in another way"
    assert "on_response=self.on_response_complete" in source, "uvicorn ends its responses in another way"


def test_uvicorn_has_the_attributes_that_are_used():
    async def attributes() -> set[str]:
        async def app(scope, receive, send) -> None: ...

        config = uvicorn.Config(app, http=bounded_protocol(1, 1.0), log_config=None, lifespan="off")
        config.load()
        protocol: Any = config.http_protocol_class
        assert protocol.most_connections == 1, "uvicorn takes no class of a protocol any more"
        return set(vars(protocol(config, ServerState(), {}, asyncio.get_running_loop())))

    missing = READ - asyncio.run(attributes())
    assert not missing, f"uvicorn {version('uvicorn')} has no HttpToolsProtocol.{min(missing)}"
    source = inspect.getsource(RequestResponseCycle)
    missing = {name for name in READ_OF_REQUESTS if f"self.{name} =" not in source}
    assert not missing, f"uvicorn {version('uvicorn')} has no RequestResponseCycle.{min(missing)}"
