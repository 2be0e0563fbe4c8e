"""Parses addresses of Kafka brokers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from speck.errors import Fault, InvalidInput

_DEFAULT_PORTS = {"kafka": 9092, "kafkas": 9093}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Hosts and ports of a cluster's brokers, and whether TLS is used; ``text`` is the address as written."""

    text: str
    brokers: tuple[tuple[str, int], ...]
    tls: bool

    @classmethod
    def parse(cls, text: str) -> BrokerAddress:
        """Parse ``kafka://HOST[:PORT]``, or ``kafkas://`` with TLS, with further hosts after commas.

        The default ports are 9092 and 9093.  Raises :class:`~speck.errors.InvalidInput`, which does not
        repeat an address that holds a password.
        """
        if "@" in text:
            message = (
                "a broker address must not contain a login (expected broker_login in the site inventory)"
            )
            raise InvalidInput([Fault(message, value="kafka")], "broker address")
        scheme, _, rest = text.partition("://")
        try:
            default = _DEFAULT_PORTS[scheme.lower()]
            brokers = tuple(_broker(each, default) for each in rest.rstrip("/").split(","))
        except (KeyError, ValueError) as error:
            expected = "expected kafka://HOST:PORT, or kafkas://HOST:PORT with TLS"
            message = f"{text!r} is not the address of a Kafka broker ({expected})"
            raise InvalidInput([Fault(message, value=text)], "broker address") from error
        return cls(text, brokers, scheme.lower() == "kafkas")

    @property
    def servers(self) -> list[str]:
        """The brokers in the form of Kafka's clients."""
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.brokers]


def _broker(text: str, default: int) -> tuple[str, int]:
    """Host and port; raises :class:`ValueError`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path or parts.port == 0:
        raise ValueError(text)
    return parts.hostname, default if parts.port is None else parts.port
