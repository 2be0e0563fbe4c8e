"""What is worth a warning in how SpecK logs in: secrets that others can read, or that are not there.

No secret is revealed in here, and none is shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret

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
    if secret is not None and parts.scheme in _CLEAR and not _is_loopback(parts.hostname or ""):
        yield f"{name} is sent to {address} in the clear (expected TLS, or a network that is trusted)"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
