"""TLS and SASL to a broker, as the login of the inventory has them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

from binders.common.tls_files import load_files
from binders.kafka.address import BrokerAddress
from speck.core.inventory import Login
from speck.core.sasl import DEFAULT_SASL, MECHANISMS


@dataclass(frozen=True, slots=True)
class Sasl:
    """A login by SASL; ``mechanism`` as the protocol names it."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def options(self) -> dict[str, str]:
        """The login as options of kafka-python."""
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }


@dataclass(frozen=True, slots=True)
class Security:
    """A context for TLS and a login, each ``None`` for a connection without."""

    context: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    @classmethod
    def of(cls, address: BrokerAddress, login: Login) -> Security:
        """Read the files and the secret of a login.

        Raises :class:`~speck.errors.Unreachable` for a file, and
        :class:`~speck.errors.SecretUnavailable` for a secret, that cannot be read.
        """
        context = None
        if address.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            load_files(context, address.text, login)
        if login.username is None or login.password is None:
            return cls(context)
        mechanism = MECHANISMS[login.sasl or DEFAULT_SASL]
        return cls(context, Sasl(mechanism, login.username, login.password.reveal()))

    def options(self) -> dict[str, Any]:
        """The options of kafka-python."""
        protocol = f"{'SASL_' if self.sasl else ''}{'SSL' if self.context else 'PLAINTEXT'}"
        return {
            "security_protocol": protocol,
            **({"ssl_context": self.context} if self.context else {}),
            **(self.sasl.options() if self.sasl else {}),
        }
