"""Parses addresses of MQTT brokers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from speck.errors import Fault, InvalidInput

_PLAIN = frozenset({"tcp", "mqtt"})
_TLS = frozenset({"mqtts", "ssl"})
_EXPECTED = "expected tcp://HOST:PORT or mqtts://HOST:PORT"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Host and port of a broker, and whether TLS is used; ``text`` is the address as written."""

    text: str
    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, text: str) -> BrokerAddress:
        """Parse an address; the default port is 1883, or 8883 with TLS.

        Raises :class:`~speck.errors.InvalidInput`, which does not repeat an address that holds a password.
        """
        if "@" in text:
            raise _fault(
                "a broker address must not contain a login (expected broker_login in the site inventory)",
                "mqtt",
            )
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        scheme = parts.scheme.lower()
        if not host or scheme not in _PLAIN | _TLS or port == 0 or parts.path.strip("/"):
            raise _fault(f"{text!r} is not the address of an MQTT broker ({_EXPECTED})", text)
        tls = scheme in _TLS
        return cls(text, host, port if port is not None else (8883 if tls else 1883), tls)


def _fault(message: str, value: str) -> InvalidInput:
    return InvalidInput([Fault(message, value=value)], "broker address")
