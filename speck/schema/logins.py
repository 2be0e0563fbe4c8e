"""Logins of the inventory: faults, and warnings about secrets that are missing or readable by others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from speck.binder import scheme_of
from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret, is_loopback
from speck.core.sasl import MECHANISMS

LoginFault = tuple[str, str]  # the field, and a predicate about it

_FILES = ("ca_file", "certificate_file", "key_file")
_WITHOUT_TLS = {
    "tcp": "mqtts://HOST:PORT",
    "kafka": "kafkas://HOST:PORT",
    "http": "https://HOST:PORT",
    "spark": "an engine with TLS",
}
_SPARK = frozenset(("sc", "spark"))
_MQTT = frozenset(("tcp", "mqtts"))
_KAFKA = frozenset(("kafka", "kafkas"))


def engine_login_faults(address: str, login: Login) -> Iterator[LoginFault]:
    """The faults of a login to the engine at a canonical address."""
    if scheme_of(address) in _SPARK:
        for name in ("username", "password"):
            if getattr(login, name) is not None:
                yield name, "is not supported by Spark engines (expected a token)"
    elif login.token is not None and login.username is not None:
        yield "token", "is given together with username (expected one of the two)"
    if login.sasl is not None:
        yield "sasl", "is not supported by engines (expected it in broker_login or job_login)"
    yield from _incomplete(login)
    yield from _without_tls(address, login)


def broker_login_faults(address: str, login: Login) -> Iterator[LoginFault]:
    """The faults of the coordinator's login to the broker at a canonical address."""
    kind = "MQTT" if scheme_of(address) in _MQTT else "Kafka" if scheme_of(address) in _KAFKA else None
    if login.token is not None and kind is not None:
        yield "token", f"is not supported by {kind} brokers (expected username and password)"
    yield from _incomplete(login)
    yield from _without_tls(address, login)
    yield from _wrong_sasl(address, login)


def job_login_faults(address: str, login: JobLogin) -> Iterator[LoginFault]:
    """The faults of the jobs' login to the broker at a canonical address."""
    if login.password is not None and login.password_file is not None:
        yield "password_file", "is given together with password (expected one of the two)"
    if login.password_file is not None and login.username is None:
        yield "password_file", "is given without username (expected both)"
    yield from _incomplete(login)
    yield from _without_tls(address, login)
    yield from _wrong_sasl(address, login)


def _incomplete(login: Login | JobLogin) -> Iterator[LoginFault]:
    if login.password is not None and login.username is None:
        yield "password", "is given without username (expected both)"
    for name, other in (("certificate_file", "key_file"), ("key_file", "certificate_file")):
        if getattr(login, name) is not None and getattr(login, other) is None:
            yield name, f"is given without {other} (expected both)"


def _without_tls(address: str, login: Login | JobLogin) -> Iterator[LoginFault]:
    right = _WITHOUT_TLS.get(scheme_of(address))
    for name in _FILES:
        if right is not None and getattr(login, name) is not None:
            yield name, f"has no effect on {scheme_of(address)}://, which has no TLS (expected {right})"


def _wrong_sasl(address: str, login: Login | JobLogin) -> Iterator[LoginFault]:
    """The faults of a login by SASL, which brokers of Kafka alone have."""
    if scheme_of(address) not in _KAFKA:
        if login.sasl is not None:
            yield "sasl", "is for Kafka brokers only (expected none)"
        return
    if login.sasl is not None and login.sasl not in MECHANISMS:
        yield "sasl", f"is {login.sasl!r} (expected one of {', '.join(MECHANISMS)})"
    elif login.sasl is not None and login.username is None:
        yield "sasl", "is given without username (expected both)"
    if (
        login.username is not None
        and login.password is None
        and getattr(login, "password_file", None) is None
    ):
        yield "username", "is given without password (expected both)"


_SECRET_FIELDS = ("password", "token")
_UNENCRYPTED = ("tcp", "mqtt", "kafka", "http", "spark")


def inventory_warnings(inventory: Inventory) -> list[str]:
    """The warnings about the logins of an inventory, a line each."""
    named = (*inventory.sites.items(), *inventory.brokers.items())
    of_engines = (
        f"site {site.name!r}: {each}"
        for site in inventory.sites.values()
        for engine in site.engines
        for each in engine_warnings(engine)
    )
    of_brokers = (f"{name!r}: {each}" for name, broker in named for each in broker_warnings(broker))
    return [*of_engines, *of_brokers]


def engine_warnings(engine: Engine) -> list[str]:
    """The warnings about the login to an engine."""
    login, scale = engine.engine_login, engine.scale
    found = [
        *_login_warnings("engine_login", login),
        *_unencrypted("engine_login", engine.spe_address, login),
    ]
    if scale is not None and scale.url is not None:
        hook = Login(token=scale.token)
        found += [*_secret_warnings("scale", hook), *_unencrypted("scale.token", scale.url, hook)]
    return found


def broker_warnings(broker: Broker) -> list[str]:
    """The warnings about the logins to a broker; the files of jobs are on other machines."""
    own, jobs = broker.broker_login, broker.job_login
    found = [*_login_warnings("broker_login", own), *_unencrypted("broker_login", broker.broker_address, own)]
    if jobs is not None:
        found += _secret_warnings("job_login", jobs)
        found += _unencrypted("job_login", broker.address_of_jobs, jobs)
    return found


def _login_warnings(name: str, login: Login) -> Iterator[str]:
    yield from _secret_warnings(name, login)
    for field in ("ca_file", "certificate_file", "key_file"):
        path = getattr(login, field)
        if path is not None:
            yield from _file_warnings(f"{name}.{field}", path, private=field == "key_file")


def _secret_warnings(name: str, login: Login | JobLogin) -> Iterator[str]:
    for field in _SECRET_FIELDS:
        secret: Secret | None = getattr(login, field, None)
        if secret is None:
            continue
        if secret.file is not None:
            yield from _file_warnings(f"{name}.{field}", secret.file, private=True)
        elif not os.environ.get(secret.variable):
            yield f"{name}.{field} is {secret.reference}, an environment variable that is not set"


def _file_warnings(field: str, path: str, *, private: bool) -> Iterator[str]:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        yield f"{field} is {path!r}, which cannot be accessed ({error.strerror})"
        return
    if private and mode & stat.S_IROTH:
        yield f"{field} is {path!r}, which every user of this machine can read (run chmod o= {path})"


def _unencrypted(name: str, address: str, login: Login | JobLogin) -> Iterator[str]:
    parts = urlsplit(address)
    file = getattr(login, "password_file", None)
    secret = login.password or getattr(login, "token", None) or file
    if secret is not None and parts.scheme in _UNENCRYPTED and not is_loopback(parts.hostname or ""):
        yield f"{name} is sent to {address} unencrypted (expected TLS, or a trusted network)"
