"""A typed client of the service. Needs the extra `client` (httpx), and nothing else of CAUSE's extras."""

from cause.client.client import Client, ServiceError

__all__ = ["Client", "ServiceError"]
