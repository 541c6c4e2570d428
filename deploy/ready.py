"""Exit 0 if the service in this container takes requests: the image's HEALTHCHECK.

Reads the variables that the service reads itself. It runs every 30 seconds, so it imports little.
"""

import os
import socket
import sys


def ready(port: int, tls: bool) -> bool:
    """Whether `/readyz` is answered with 200."""
    connection = socket.create_connection(("localhost", port), timeout=2)
    if tls:
        import ssl

        context = ssl.create_default_context()
        # The certificate names the device, not localhost, and nothing secret is sent.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    with connection, connection.makefile("rb") as answer:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return answer.readline().split()[1:2] == [b"200"]


if __name__ == "__main__":
    try:
        takes = ready(int(os.environ.get("CAUSE_SERVE_PORT", "8470")), "CAUSE_SERVE_TLS_CERT" in os.environ)
    except OSError as error:
        sys.exit(f"nobody answers: {error}")
    sys.exit(None if takes else "it starts or stops")
