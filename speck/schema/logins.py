"""Whether a login of the inventory fits the kind of engine or broker that it is for."""

from __future__ import annotations

from collections.abc import Iterator

from speck.binder import scheme_of
from speck.core.inventory import JobLogin, Login

LoginFault = tuple[str, str]  # the field, and the end of a sentence about it

_FILES = ("ca_file", "certificate_file", "key_file")
_WITHOUT_TLS = {"tcp": "mqtts://HOST:PORT", "http": "https://HOST:PORT", "spark": "an engine with TLS"}
_SPARK = frozenset(("sc", "spark"))
_MQTT = frozenset(("tcp", "mqtts"))


def engine_login_faults(address: str, login: Login) -> Iterator[LoginFault]:
    """What does not fit the engine at an address (canonical)."""
    if scheme_of(address) in _SPARK:
        for name in ("username", "password"):
            if getattr(login, name) is not None:
                yield name, "does not fit a Spark engine (expected a token)"
    elif login.token is not None and login.username is not None:
        yield "token", "stands beside username (expected one of the two)"
    yield from _together(login)
    yield from _encrypted(address, login)


def broker_login_faults(address: str, login: Login) -> Iterator[LoginFault]:
    """What does not fit the broker at an address (canonical)."""
    if login.token is not None and scheme_of(address) in _MQTT:
        yield "token", "does not fit an MQTT broker (expected username and password)"
    yield from _together(login)
    yield from _encrypted(address, login)


def job_login_faults(address: str, login: JobLogin) -> Iterator[LoginFault]:
    """What does not fit the broker at an address (canonical)."""
    if login.password is not None and login.password_file is not None:
        yield "password_file", "stands beside password (expected one of the two)"
    if login.password_file is not None and login.username is None:
        yield "password_file", "stands without username (expected both)"
    yield from _together(login)
    yield from _encrypted(address, login)


def _together(login: Login | JobLogin) -> Iterator[LoginFault]:
    if login.password is not None and login.username is None:
        yield "password", "stands without username (expected both)"
    for name, other in (("certificate_file", "key_file"), ("key_file", "certificate_file")):
        if getattr(login, name) is not None and getattr(login, other) is None:
            yield name, f"stands without {other} (expected both)"


def _encrypted(address: str, login: Login | JobLogin) -> Iterator[LoginFault]:
    right = _WITHOUT_TLS.get(scheme_of(address))
    for name in _FILES:
        if right is not None and getattr(login, name) is not None:
            yield name, f"does not fit {scheme_of(address)}://, which has no TLS (expected {right})"
