"""The site inventory: engines, brokers, logins with references to secrets, uplinks; frozen values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar

from speck.errors import Fault, InvalidInput, SecretUnavailable

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z|file:.+\Z")
_LARGEST_SECRET = 65_535  # bytes of UTF-8; the limit of MQTT's password (MQTT 5.0, section 1.5.6)

MAX_QUEUED_BYTES = 100_000_000  # of pipelines/mosquitto.conf


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret (``${NAME}`` of the environment, or ``file:PATH``), never the secret itself."""

    reference: str

    def __post_init__(self) -> None:
        if not _REFERENCE.match(self.reference):
            # The message does not repeat the value, which may be the secret itself.
            raise InvalidInput([Fault("a secret must be a reference: ${NAME} or file:PATH")], "secret")

    @property
    def file(self) -> str | None:
        """The path of the secret's file; ``None`` for an environment variable."""
        return self.reference.removeprefix("file:") if self.reference.startswith("file:") else None

    @property
    def variable(self) -> str:
        """The name of the secret's environment variable; empty for a file."""
        return "" if self.file is not None else self.reference[2:-1]

    def reveal(self) -> str:
        """Read the secret's value.  Raises :class:`SecretUnavailable`."""
        value = os.environ.get(self.variable) if self.file is None else self._read(self.file)
        if value is None:
            raise self._unusable("is not set (expected an environment variable of this name)")
        if not value.strip():
            raise self._unusable("is empty")
        if self._size(value) > _LARGEST_SECRET:
            raise self._unusable(f"is too long (expected at most {_LARGEST_SECRET:,} bytes)")
        return value

    def _size(self, value: str) -> int:
        try:
            return len(value.encode())
        except UnicodeEncodeError:
            # Not chained: the cause contains the value.
            raise self._unusable("is not UTF-8 text") from None

    def _read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise self._unusable(f"cannot be read ({error.strerror})") from error
        except UnicodeDecodeError:
            # Not chained: the cause contains the file's content.
            raise self._unusable("is not UTF-8 text") from None

    def _unusable(self, why: str) -> SecretUnavailable:
        return SecretUnavailable(f"secret {self.reference!r} {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The coordinator's login to an engine or a broker, and the authority that it trusts there.

    The files are PEM, on the coordinator's machine.  ``certificate_file`` and ``key_file`` are the client
    certificate, for servers that request one, and its key.  ``sasl`` is the mechanism by which a broker of
    Kafka is logged in to, of :data:`speck.core.sasl.MECHANISMS`; ``None``: the default.
    """

    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    sasl: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogin:
    """The jobs' login to a broker.  The files are on the machines of their engines.

    The coordinator sends ``password`` to the engine that starts a job; ``password_file`` is read by the job,
    and never leaves its machine.
    """

    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    sasl: str | None = None

    def revealed(self) -> dict[str, str]:
        """The fields that are set, by name, with the password in plain text: for the job's engine alone.

        Raises :class:`~speck.errors.SecretUnavailable`.
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in found.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """A site's link to the others: bandwidth (to them) and downlink (from them) in bit/s.

    Latency is one way, in ms.
    """

    bandwidth: float | None = None
    latency: float | None = None
    downlink: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The path from the site, or broker, ``source`` to ``target``: bandwidth in bit/s, latency in ms."""

    source: str
    target: str
    bandwidth: float | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """The rules by which messages that wait for a job ask for more workers.

    ``steep`` and ``rise`` are growths of their number, ``fall`` is a decrease, all in messages/s; ``waiting``
    is a number of messages, ``pause`` the time between two predictions, s.
    """

    steep: float = 10.0
    rise: float = 5.0
    waiting: int = 100
    fall: float = 10.0
    pause: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A call that starts and stops workers, or an engine of a pool.

    One of a ``command`` (arguments, no shell), a ``url`` with a ``token``, and ``local``, the directory of
    the sites of this machine.  ``idle`` is the time after which what has no jobs may be stopped, s.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    token: Secret | None = None
    local: str | None = None
    idle: float = 60.0

    @property
    def names_stopped(self) -> bool:
        """True if the hook receives the ids of the workers to stop."""
        return not self.command or any("{stop}" in each for each in self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Hook):
    """The workers of an engine, whose number SpecK sets between ``least`` and ``most`` by their hook.

    Each has ``cores``, ``slots`` and ``memory`` (bytes).
    """

    least: int
    most: int
    cores: float
    slots: int | None = None
    memory: int | None = None
    predictor: Predictor = Predictor()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine of a site.  ``memory`` is in bytes; directories are paths as the engine sees them.

    ``cores`` is the number of its cores, ``speed`` their speed relative to the reference core, and ``price``
    that of one; ``None``: not given.  ``rest_port`` and ``ui_port`` are the ports of the REST server and of
    the web interface of an engine whose address has another port (Spark standalone).  ``scale`` has the
    workers of an engine whose workers come and go; ``None``: they are as they are.  ``pool`` is the name of
    the engines of its site of which SpecK chooses one for each job; ``None``: it is in none.  ``hook`` starts
    and stops an engine of a pool; ``None``: it runs all the time.
    """

    spe_address: str
    rest_port: int | None = None
    ui_port: int | None = None
    slots: int | None = None
    memory: int | None = None
    checkpoint_dir: str | None = None
    savepoint_dir: str | None = None
    engine_login: Login = Login()
    cores: float | None = None
    speed: float | None = None
    price: float | None = None
    scale: Scale | None = None
    pool: str | None = None
    hook: Hook | None = None

    @property
    def most_cores(self) -> float | None:
        """Its cores, with all the workers that it may get; ``None``: not given."""
        return self.cores if self.scale is None else self.scale.most * self.scale.cores

    @property
    def most_slots(self) -> int | None:
        """Its slots, with all the workers that it may get; ``None``: not given."""
        if self.scale is None or self.scale.slots is None:
            return self.slots
        return self.scale.most * self.scale.slots


@dataclass(frozen=True, slots=True)
class Pool:
    """The engines of one site of which SpecK chooses one for each job, in the order of the inventory."""

    site: str
    name: str
    engines: tuple[Engine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker and its logins; without a ``job_login``, jobs use the coordinator's.

    ``broker_address`` is its identity: the address by which the coordinator reaches it, and by which all
    records name it.  ``job_broker_address`` is the one by which jobs reach it; ``None``: the same.
    ``max_queued_bytes`` is the size beyond which one of its sessions drops messages; 0: none.  MQTT does not
    report it.
    """

    broker_address: str
    broker_login: Login = Login()
    job_login: JobLogin | None = None
    max_queued_bytes: int = MAX_QUEUED_BYTES
    job_broker_address: str | None = None

    @property
    def address_of_jobs(self) -> str:
        """The address by which jobs reach the broker."""
        return self.job_broker_address or self.broker_address

    def login_of_jobs(self) -> JobLogin:
        """The login that jobs use."""
        if self.job_login is not None:
            return self.job_login
        login = self.broker_login
        return JobLogin(
            username=login.username,
            password=login.password,
            ca_file=login.ca_file,
            certificate_file=login.certificate_file,
            key_file=login.key_file,
            sasl=login.sasl,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(Broker):
    """A place with one or more engines and one broker.

    ``labels`` are names to choose sites by; ``tier`` is ``edge``, ``region`` or ``cloud``.  ``cores``,
    ``speed`` and ``price`` are of the machines that all engines share, as for :class:`Engine`; either the
    site has them, or its engines do.  ``agent``: its engines and its broker are reached through the agent
    that runs there.
    """

    name: str
    engines: tuple[Engine, ...]
    uplink: Uplink = Uplink()
    cores: float | None = None
    speed: float | None = None
    price: float | None = None
    tier: str | None = None
    labels: tuple[str, ...] = ()
    agent: bool = False

    @property
    def addresses(self) -> frozenset[str]:
        """Those of its engines and of its broker."""
        return frozenset((self.broker_address, *(each.spe_address for each in self.engines)))

    @property
    def all_cores(self) -> float | None:
        """The number of cores, of the site or of its engines together; ``None``: not all are given."""
        found = [each.most_cores for each in self.engines]
        known = [each for each in found if each is not None]
        return self.cores if self.cores is not None or len(known) < len(found) else sum(known)

    @property
    def mean_speed(self) -> float | None:
        """The speed of a core, on average; ``None``: not given."""
        return self.speed if self.speed is not None else self._mean([each.speed for each in self.engines])

    @property
    def mean_price(self) -> float | None:
        """The price of a core, on average; ``None``: not given."""
        return self.price if self.price is not None else self._mean([each.price for each in self.engines])

    def _mean(self, values: Sequence[float | None]) -> float | None:
        """The mean of a property of the engines by their cores; 1 for an engine without it."""
        if all(each is None for each in values):
            return None
        cores = [each.most_cores or 1.0 for each in self.engines]
        weighed = (
            (1.0 if value is None else value) * weight for value, weight in zip(values, cores, strict=True)
        )
        return sum(weighed) / sum(cores)


@dataclass(frozen=True)
class Inventory:
    """The sites, the brokers that belong to no site, by name, and the links between two of them.

    Look-ups by address are exact.
    """

    sites: Mapping[str, Site] = field(default_factory=dict)
    brokers: Mapping[str, Broker] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

    on_site: ClassVar[bool] = False
    """True for that of an agent: the directories of its engines are on this machine."""

    @property
    def snapshot(self) -> Inventory:
        """The inventory as it is now, which does not change while something is computed from it."""
        return self

    # Indexes by address, as there may be thousands of sites.

    @cached_property
    def _engines(self) -> dict[str, list[tuple[Site, Engine]]]:
        found: dict[str, list[tuple[Site, Engine]]] = {}
        for site in self.sites.values():
            for engine in site.engines:
                found.setdefault(engine.spe_address, []).append((site, engine))
        return found

    @cached_property
    def _sites_of_brokers(self) -> dict[str, Site]:
        return {site.broker_address: site for site in reversed(tuple(self.sites.values()))}

    @cached_property
    def _brokers(self) -> dict[str, Broker]:
        known = (*self.sites.values(), *self.brokers.values())
        return {each.broker_address: each for each in reversed(known)}

    @cached_property
    def _brokers_of_jobs(self) -> dict[str, Broker]:
        return {each.address_of_jobs: each for each in reversed(tuple(self._brokers.values()))}

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of all sites."""
        found: dict[tuple[str, str], list[Engine]] = {}
        for site in self.sites.values():
            for engine in site.engines:
                if engine.pool is not None:
                    found.setdefault((site.name, engine.pool), []).append(engine)
        return tuple(Pool(*names, tuple(engines)) for names, engines in found.items())

    @cached_property
    def _pools(self) -> dict[str, Pool]:
        return {engine.spe_address: pool for pool in self.pools for engine in pool.engines}

    def pool_of(self, address: str) -> Pool | None:
        """The pool that has the engine with this address."""
        return self._pools.get(address)

    def link(self, source: str, target: str) -> Link | None:
        """The declared link from one place to another, or else that of the other direction."""
        found = {(each.source, each.target): each for each in self.links}
        return found.get((source, target)) or found.get((target, source))

    def site_of_engine(self, address: str, *hints: str | None) -> Site | None:
        """The site that has the engine with this address.

        Of several, the one that the first fitting of these hints names, by its name or by the address of its
        broker, or else the first.
        """
        return choose_site([site for site, _ in self._engines.get(address, ())], hints)

    def sites_by_engine(self) -> dict[str, list[Site]]:
        """The sites that each engine serves, by its address."""
        return {address: [site for site, _ in found] for address, found in self._engines.items()}

    def site_of_broker(self, address: str) -> Site | None:
        """The first site whose broker has this address."""
        return self._sites_of_brokers.get(address)

    def addresses_at(self, site: str) -> frozenset[str]:
        """The addresses of a site; none of an unknown one."""
        found = self.sites.get(site)
        return frozenset() if found is None else found.addresses

    def engine(self, address: str) -> Engine:
        """The engine with this address; one with defaults if it is at no site."""
        found = self._engines.get(address)
        return found[0][1] if found else Engine(spe_address=address)

    def broker(self, address: str) -> Broker:
        """The broker with this address; if there is no entry, one with defaults."""
        return self._brokers.get(address) or Broker(broker_address=address)

    def job_broker_address(self, address: str) -> str:
        """The address by which jobs reach the broker whose ``broker_address`` this is."""
        return self.broker(address).address_of_jobs

    def own_broker_address(self, address: str) -> str:
        """The ``broker_address`` of the broker at this address, which may be the one that jobs use."""
        if address in self._brokers or address not in self._brokers_of_jobs:
            return address
        return self._brokers_of_jobs[address].broker_address

    def places(self) -> list[Site]:
        """The sites, then the brokers that belong to no site, as sites without engines."""
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
                    max_queued_bytes=broker.max_queued_bytes,
                    job_broker_address=broker.job_broker_address,
                )
                for name, broker in self.brokers.items()
                if broker.broker_address not in of_sites
            ),
        ]

    def broker_named(self, name: str) -> Broker | None:
        """The broker of the site with this name, or the broker with this name."""
        return self.sites.get(name) or self.brokers.get(name)

    def broker_login(self, address: str) -> Login:
        """The coordinator's login to the broker at this address; empty if there is no entry."""
        return self.broker(address).broker_login

    def job_login(self, address: str) -> JobLogin:
        """The jobs' login to the broker at this address; empty if there is no entry."""
        return self.broker(address).login_of_jobs()


def choose_site(sites: Sequence[Site], hints: Iterable[str | None] = ()) -> Site | None:
    """The first of these sites that a hint names, by its name or its broker's address, or else the first."""
    fits = (site for hint in hints if hint for site in sites if hint in (site.name, site.broker_address))
    return next(fits, sites[0] if sites else None)


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a listener on this host name or address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
