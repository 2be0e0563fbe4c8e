"""The site inventory: engines, brokers, logins by reference, uplinks; frozen values, and no third party."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from speck.errors import Fault, InvalidInput, SecretUnavailable

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z|file:.+\Z")


_LARGEST_SECRET = 65_535  # bytes of UTF-8; no protocol in use takes more


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret (``${NAME}`` of the environment, or ``file:PATH``), never the secret itself."""

    reference: str

    def __post_init__(self) -> None:
        if not _REFERENCE.match(self.reference):
            # The value is not repeated: somebody may have written the secret itself.
            raise InvalidInput([Fault("a secret must be a reference: ${NAME} or file:PATH")], "secret")

    @property
    def file(self) -> str | None:
        """The path of the file that it is in, if it is in one."""
        return self.reference.removeprefix("file:") if self.reference.startswith("file:") else None

    @property
    def variable(self) -> str:
        """The name of the environment's variable that it is in; empty when it is in a file."""
        return "" if self.file is not None else self.reference[2:-1]

    def reveal(self) -> str:
        """The secret's value, read now.  Raises :class:`SecretUnavailable` when there is none to be had."""
        value = os.environ.get(self.variable) if self.file is None else self._read(self.file)
        if value is None:
            raise self._unusable("leads nowhere (set the variable)")
        if not value.strip():
            raise self._unusable("is empty")
        if self._size(value) > _LARGEST_SECRET:
            raise self._unusable(f"is too long (expected at most {_LARGEST_SECRET:,} bytes)")
        return value

    def _size(self, value: str) -> int:
        try:
            return len(value.encode())
        except UnicodeEncodeError:
            # Not chained: that error has all of the value in it.
            raise self._unusable("is not UTF-8 text") from None

    def _read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise self._unusable(f"leads nowhere ({error.strerror}: make the file)") from error
        except UnicodeDecodeError:
            # Not chained: that error has all of the file in it.
            raise self._unusable("is in a file that is not UTF-8 text") from None

    def _unusable(self, why: str) -> SecretUnavailable:
        return SecretUnavailable(f"secret {self.reference!r} {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How the coordinator logs in to an engine or a broker, and whom it trusts there.

    The files are PEM, on its own machine.  ``certificate_file`` is shown to who asks for a client's
    certificate; ``key_file`` holds its key.
    """

    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogin:
    """How jobs log in to a broker.  The files are on the machines of their engines.

    ``password`` is revealed by the coordinator to an engine that starts a job; ``password_file`` is read by
    the job itself, and never leaves its machine.
    """

    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """A site's link to the others: bandwidth in bit/s, latency (one way) in ms."""

    bandwidth: float | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine of a site.  ``memory`` is bytes; directories are the engine's own.

    ``rest_port`` and ``ui_port`` are the ports of an engine's REST server and of its web interface where its
    address names another (Spark standalone).
    """

    spe_address: str
    rest_port: int | None = None
    ui_port: int | None = None
    slots: int | None = None
    memory: int | None = None
    checkpoint_dir: str | None = None
    savepoint_dir: str | None = None
    engine_login: Login = Login()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker, and how to log in there; without a ``job_login``, jobs do it as the coordinator does."""

    broker_address: str
    broker_login: Login = Login()
    job_login: JobLogin | None = None

    def login_of_jobs(self) -> JobLogin:
        """How jobs log in."""
        if self.job_login is not None:
            return self.job_login
        login = self.broker_login
        return JobLogin(
            username=login.username,
            password=login.password,
            ca_file=login.ca_file,
            certificate_file=login.certificate_file,
            key_file=login.key_file,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(Broker):
    """A place with an engine, or several, and one broker."""

    name: str
    engines: tuple[Engine, ...]
    uplink: Uplink = Uplink()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The sites and the brokers of no site, by name, and what is known of an engine's or broker's address."""

    sites: Mapping[str, Site] = field(default_factory=dict)
    brokers: Mapping[str, Broker] = field(default_factory=dict)

    def site_of_engine(self, address: str) -> Site | None:
        """The site that has the engine with this address."""
        return next((site for site in self.sites.values() if _engine(site, address) is not None), None)

    def engine(self, address: str) -> Engine:
        """What is known of the engine at this address; nothing but the address when no site names it."""
        site = self.site_of_engine(address)
        return (_engine(site, address) if site else None) or Engine(spe_address=address)

    def broker(self, address: str) -> Broker:
        """What is known of the broker at this address; nothing but the address when nothing names it."""
        known = (*self.sites.values(), *self.brokers.values())
        named = (each for each in known if each.broker_address == address)
        return next(named, None) or Broker(broker_address=address)

    def places(self) -> list[Site]:
        """The sites; after them the brokers that are those of no site, as sites without engines."""
        of_sites = {site.broker_address for site in self.sites.values()}
        return [
            *self.sites.values(),
            *(
                Site(
                    name=name,
                    engines=(),
                    broker_address=broker.broker_address,
                    broker_login=broker.broker_login,
                    job_login=broker.job_login,
                )
                for name, broker in self.brokers.items()
                if broker.broker_address not in of_sites
            ),
        ]

    def broker_named(self, name: str) -> Broker | None:
        """The broker of the site with this name, or the one of no site that has it."""
        return self.sites.get(name) or self.brokers.get(name)

    def broker_login(self, address: str) -> Login:
        """How to log in to the broker at this address; an empty login when nothing names it."""
        return self.broker(address).broker_login

    def job_login(self, address: str) -> JobLogin:
        """How jobs log in to the broker at this address; an empty login when nothing names it."""
        return self.broker(address).login_of_jobs()


def _engine(site: Site, address: str) -> Engine | None:
    return next((engine for engine in site.engines if engine.spe_address == address), None)


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a listener on this host name or address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
