"""Logins of the inventory: faults of form, and warnings about secrets that are open or missing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from speck.binder import scheme_of
from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret, is_loopback

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


_SECRET_FIELDS = ("password", "token")


_CLEAR = ("tcp", "mqtt", "http", "spark")


def inventory_concerns(inventory: Inventory) -> list[str]:
    """All that is worth a warning in an inventory, a line each."""
    named = (*inventory.sites.items(), *inventory.brokers.items())
    of_engines = (
        f"site {site.name!r}: {each}"
        for site in inventory.sites.values()
        for engine in site.engines
        for each in engine_concerns(engine)
    )
    of_brokers = (f"{name!r}: {each}" for name, broker in named for each in broker_concerns(broker))
    return [*of_engines, *of_brokers]


def engine_concerns(engine: Engine) -> list[str]:
    """What is worth a warning in the login to an engine."""
    login = engine.engine_login
    return [*_of_login("engine_login", login), *_in_the_clear("engine_login", engine.spe_address, login)]


def broker_concerns(broker: Broker) -> list[str]:
    """What is worth a warning in the logins to a broker; the files of jobs are on other machines."""
    own, jobs = broker.broker_login, broker.job_login
    found = [*_of_login("broker_login", own), *_in_the_clear("broker_login", broker.broker_address, own)]
    if jobs is not None:
        found += _of_secrets("job_login", jobs)
        found += _in_the_clear("job_login", broker.broker_address, jobs)
    return found


def _of_login(name: str, login: Login) -> Iterator[str]:
    yield from _of_secrets(name, login)
    for field in ("ca_file", "certificate_file", "key_file"):
        path = getattr(login, field)
        if path is not None:
            yield from _of_file(f"{name}.{field}", path, private=field == "key_file")


def _of_secrets(name: str, login: Login | JobLogin) -> Iterator[str]:
    for field in _SECRET_FIELDS:
        secret: Secret | None = getattr(login, field, None)
        if secret is None:
            continue
        if secret.file is not None:
            yield from _of_file(f"{name}.{field}", secret.file, private=True)
        elif not os.environ.get(secret.variable):
            yield f"{name}.{field} is {secret.reference}, which is not set"


def _of_file(what: str, path: str, *, private: bool) -> Iterator[str]:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        yield f"{what} is {path!r}, which cannot be looked at ({error.strerror})"
        return
    if private and mode & stat.S_IROTH:
        yield f"{what} is {path!r}, which everybody on this machine can read (expected chmod o= {path})"


def _in_the_clear(name: str, address: str, login: Login | JobLogin) -> Iterator[str]:
    parts = urlsplit(address)
    file = getattr(login, "password_file", None)
    secret = login.password or getattr(login, "token", None) or file
    if secret is not None and parts.scheme in _CLEAR and not is_loopback(parts.hostname or ""):
        yield f"{name} is sent to {address} in the clear (expected TLS, or a network that is trusted)"
