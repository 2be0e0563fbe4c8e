"""The PEM files of a login, for a TLS connection to a broker."""

from __future__ import annotations

import ssl

from speck.core.inventory import Login
from speck.errors import Unreachable


def load_files(context: ssl.SSLContext, address: str, login: Login) -> None:
    """Load the trusted authorities, by default the system's, and the client certificate.

    Raises :class:`~speck.errors.Unreachable`, which names ``address``, if a file cannot be used.
    """
    if login.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cafile=login.ca_file)
        except (OSError, ssl.SSLError) as error:
            what = f"ca_file {login.ca_file!r}"
            raise _unusable(address, what, error, "a PEM file of certificates") from error
    if login.certificate_file is not None:
        try:
            context.load_cert_chain(login.certificate_file, login.key_file, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            what = f"certificate_file {login.certificate_file!r} with key_file {login.key_file!r}"
            expected = "PEM files: a certificate and its key, without a password"
            raise _unusable(address, what, error, expected) from error


def _no_password() -> str:
    # Otherwise OpenSSL prompts for one at the terminal.
    return ""


def _unusable(address: str, what: str, error: OSError, expected: str) -> Unreachable:
    why = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "invalid content"
    reason = str(why).replace("_", " ").lower()
    message = f"broker {address}: {what} cannot be used: {reason} (expected {expected})"
    return Unreachable(message, address=address)
