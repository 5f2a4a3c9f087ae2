"""Takes the port of a server before all that takes time: it may be in use."""

from __future__ import annotations

import errno
import socket

from roberta_hub.errors import InputError, Remedy


def bound(host: str, port: int, remedy: Remedy) -> socket.socket:
    """Take a port of an address, before it listens; the remedy is for one that is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"{host!r} is no address of this machine: {error}") from None
    taken = socket.socket(family, kind, protocol)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
    except OSError as error:
        taken.close()
        used = error.errno == errno.EADDRINUSE
        what = "is in use by another program" if used else f"cannot be had: {error.strerror}"
        raise InputError(f"port {port} {what}", remedy=remedy) from None
    return taken
