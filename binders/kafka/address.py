"""Parses addresses of Kafka brokers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from speck.errors import Fault, InvalidInput

_DEFAULT_PORT = 9092


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Host and port of a broker; ``text`` is the address as written."""

    text: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> BrokerAddress:
        """Parse ``kafka://HOST[:PORT]``; the default port is 9092.

        Raises :class:`~speck.errors.InvalidInput`, which does not repeat an address that holds a password.
        """
        if "@" in text:
            message = "a broker address must not contain a login"
            raise InvalidInput([Fault(message, value="kafka")], "broker address")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if not host or parts.scheme.lower() != "kafka" or port == 0 or parts.path.strip("/"):
            message = f"{text!r} is not the address of a Kafka broker (expected kafka://HOST:PORT)"
            raise InvalidInput([Fault(message, value=text)], "broker address")
        return cls(text, host, port if port is not None else _DEFAULT_PORT)

    @property
    def server(self) -> str:
        """The address in the form of Kafka's clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
