"""Typed clients of the service. They need the extra `client` (httpx), and nothing else of CAUSE's extras."""

from cause.client.async_client import AsyncClient
from cause.client.client import Client, ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
