"""The settings of the server: default, unit, bounds and help text of each stand here once.

The options of ``speck serve`` and their documentation are made from the fields' :class:`Option`; the server
takes a :class:`ServerSettings`, the coordinator its :class:`Settings`.  Values are checked where a group of
settings is made, which raises :class:`~speck.errors.InvalidInput` with every fault found.
"""

# ruff: noqa: RUF009 - setting() makes a field, as dataclasses.field does
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from speck.errors import Fault, InvalidInput

CLIENT_RATE = 100.0  # requests/s of one client beyond loopback, where --rate is not given
_MAX_BOUND = 1_000_000  # entries, the highest bound that can be set

_Group = TypeVar("_Group")


@dataclass(frozen=True, slots=True)
class Option:
    """The way a user sets a value: the ``flag`` of ``speck serve``, its ``help``, and the valid values.

    ``kind`` is int, float, str or Path.  ``least`` and ``most`` bound a number, in ``unit`` (or as ``unit``
    names another value); one of these units is ``scale`` of the setting's own.  A ``repeated`` option fills a
    tuple.  A path is of a ``directory`` or a file; with ``exists`` that must be there already.
    """

    flag: str
    help: str
    kind: type = str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    scale: int = 1
    repeated: bool = False
    directory: bool = False
    exists: bool = False
    shows_default: bool = True

    @property
    def name(self) -> str:
        """The name of the option's value: that of the flag as an identifier."""
        return self.flag.removeprefix("--").replace("-", "_")

    def fault(self, name: str, value: Any) -> str | None:
        """The reason why this value of the setting ``name`` is not allowed; ``None`` if it is."""
        if value is None or self.least is None:
            return None
        given, most = value / self.scale, float("inf") if self.most is None else self.most
        if self.least <= given <= most:
            return None
        right = f"{self.least:g} or more" if self.most is None else f"{self.least:g} to {self.most:,.15g}"
        return f"{self.flag or name} is {given:g} (expected {right}{self.unit and ' ' + self.unit})"


def setting(default: Any, flag: str, text: str, **how: Any) -> Any:
    """A field with its default and its :class:`Option`."""
    return field(default=default, metadata={"option": Option(flag, text, **how)})


def _count(default: int, flag: str, text: str, most: int | None = None) -> Any:
    return setting(default, flag, text, kind=int, least=1, most=most)


def _file(flag: str, text: str, **how: Any) -> Any:
    return setting(None, flag, text, kind=Path, **how)


def options(settings: Any) -> Iterator[tuple[str, Any, Option]]:
    """Name, value and option of each setting, those of nested groups included, in the order of the fields."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if option := each.metadata.get("option"):
            yield each.name, value, option
        else:
            yield from options(value)


def with_options(settings: _Group, given: Mapping[str, Any]) -> _Group:
    """The settings with the values ``given`` by the names of their options, in the options' units."""
    values = {}
    for each in fields(settings):  # type: ignore[arg-type]
        value, option = getattr(settings, each.name), each.metadata.get("option")
        if option is None:
            values[each.name] = with_options(value, given)
        elif option.name in given:
            value = given[option.name]
            values[each.name] = value if value is None or option.scale == 1 else value * option.scale
    return replace(settings, **values)  # type: ignore[type-var]


def _check(settings: Any, *others: str | None) -> None:
    """Raise :class:`~speck.errors.InvalidInput` with the faults of single values and the ``others``."""
    found = (option.fault(name, value) for name, value, option in options(settings))
    if faults := [Fault(each) for each in (*found, *others) if each is not None]:
        raise InvalidInput(faults, "settings")


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """Bounds of the stored history: revisions of each composition, operations and events of all together.

    ``deleted`` is the number of deleted compositions that are retained, with their revisions and their code.

    Operations (``healings``) and events (``loop_events``) of the reconciler are counted apart, so that a job
    that keeps dying does not push what users did out of the history.
    """

    revisions: int = _count(100, "--keep-revisions", "Revisions to keep of each composition.", _MAX_BOUND)
    operations: int = _count(500, "--keep-operations", "Operations of users to keep.", _MAX_BOUND)
    events: int = _count(10_000, "--keep-events", "Audit entries of users' changes to keep.", _MAX_BOUND)
    healings: int = _count(100, "--keep-loop-operations", "Automatic operations to keep.", _MAX_BOUND)
    loop_events: int = _count(
        2_000, "--keep-loop-events", "Audit entries of automatic operations to keep.", _MAX_BOUND
    )
    deleted: int = _count(
        100, "--keep-deleted", "Deleted compositions to keep, with their revisions.", _MAX_BOUND
    )

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits on a coordinator's load, so that no single user can take all of it."""

    operations: int = _count(
        100,
        "--max-operations",
        "Maximum number of concurrent operations of users, and separately of the reconciler.",
    )
    jobs: int = _count(20_000, "--max-jobs", "Maximum number of jobs.")
    compositions: int = _count(2_000, "--max-compositions", "Maximum number of compositions.")

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a coordinator.

    ``roots`` are the directories under which job files may lie, ``advertise`` is the URL at which engines
    fetch files (empty: they cannot).  ``drain``, ``period``, ``adapt`` and ``heal_patience`` are in s,
    ``measuring`` is in cores, ``state_limit`` and ``sent_code`` in bytes.
    """

    roots: tuple[Path, ...] = setting(
        (Path(),),
        "--root",
        "Directory tree with job files; may be repeated [default: the current directory].",
        kind=Path,
        repeated=True,
        directory=True,
        exists=True,
        shows_default=False,
    )
    advertise: str = setting(
        "",
        "--advertise",
        "Address at which engines fetch files from this server [default: the listening address].",
        unit="URL",
        shows_default=False,
    )
    history: HistoryBounds = HistoryBounds()
    drain: float = setting(
        30.0,
        "--drain",
        "Time for a job to process its backlog before it leaves its source; 0: no draining (see --give-up).",
        kind=float,
        unit="SECONDS",
        least=0,
    )
    # An engine is asked so often that a death is seen within 10 s of it, the answer's time included.
    period: float = setting(
        9.5,
        "--period",
        "Reconcile interval; 0 turns the reconciler off.",
        kind=float,
        unit="SECONDS",
        least=0,
        most=3600,
    )
    adapt: float = setting(
        60.0,
        "--adapt",
        "Adaptation interval for compositions with the mode auto; 0 turns adaptation off.",
        kind=float,
        unit="SECONDS",
        least=0,
        most=3600,
    )
    measuring: float = setting(
        0.01,
        "--measuring",
        "CPU share for measuring jobs; above it, jobs are sampled less often.",
        kind=float,
        unit="CORES",
        least=0.0001,
        most=1,
    )
    state_limit: int = setting(
        64 << 20,
        "--state-limit",
        "Largest state that can be transferred between sites without shared storage.",
        kind=int,
        unit="MIB",
        least=0,
        most=1024,
        scale=1 << 20,
    )
    sent_code: int = setting(
        2 << 30,
        "--sent-code",
        "Maximum unapplied code sent by clients; 0 accepts none: only files under --root can run.",
        kind=int,
        unit="MIB",
        least=0,
        most=1 << 20,
        scale=1 << 20,
    )
    heal_patience: float = setting(
        30.0,
        "",
        "Time a user's request waits for a repair in progress.",
        kind=float,
        unit="SECONDS",
        least=0,
    )
    quotas: Quotas = Quotas()

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class PairSettings:
    """The settings of a server of a pair.

    ``standby`` and ``standby_of`` are the URL of the other server, which is the standby or the primary at the
    first start; ``witness`` is that of their witness, ``token`` and ``authority`` are files.
    """

    standby: str | None = setting(
        None,
        "--standby",
        "Standby of this server, which takes over if it fails; requires --witness and --standby-token.",
        unit="URL",
    )
    standby_of: str | None = setting(
        None,
        "--standby-of",
        "Server of which this one is the standby; requires --witness and --standby-token.",
        unit="URL",
    )
    witness: str | None = setting(
        None, "--witness", "Witness of this server and its standby (see speck witness).", unit="URL"
    )
    token: Path | None = _file(
        "--standby-token", "File with the token that this server, its standby and their witness share."
    )
    authority: Path | None = _file(
        "--standby-ca",
        "PEM file of the authority that signed the certificates of standby and witness "
        "[default: those of the system].",
        exists=True,
    )

    def __post_init__(self) -> None:
        _check(self, self._peer_fault(), self._needed_fault())

    @property
    def peer(self) -> str | None:
        """The URL of the other server; ``None`` for a server without one."""
        return self.standby or self.standby_of

    def _peer_fault(self) -> str | None:
        both = self.standby is not None and self.standby_of is not None
        return "--standby and --standby-of exclude each other (expected one of them)" if both else None

    def _needed_fault(self) -> str | None:
        given = {"--witness": self.witness, "--standby-token": self.token}
        if self.peer is None:
            alone = [name for name, value in (*given.items(), ("--standby-ca", self.authority)) if value]
            return f"{alone[0]} requires --standby or --standby-of" if alone else None
        missing = [name for name, value in given.items() if not value]
        flag = "--standby" if self.standby is not None else "--standby-of"
        return f"{flag} requires {' and '.join(missing)}" if missing else None


HOST, PORT = "127.0.0.1", 8180  # of the server; its clients look for it there


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server process, and those of its coordinator.

    ``agents`` is the address at which agents connect, ``agent_tokens`` the file with the tokens of their
    sites.  ``rate`` is in requests/s of one client (0: any number; ``None``: any on loopback,
    :data:`CLIENT_RATE` beyond), ``ending`` in s.  ``token_file`` holds one token, ``tokens`` names several;
    ``tls_cert`` and ``tls_key`` are PEM files.
    """

    host: str = setting(HOST, "--host", "Address to listen on.")
    port: int = setting(
        PORT, "--port", "Port to listen on; 0 chooses a free one.", kind=int, least=0, most=65535
    )
    data_dir: Path = setting(
        Path(".speck/store"), "--data-dir", "Directory of the store.", kind=Path, directory=True
    )
    sites: Path | None = _file(
        "--sites", "Site inventory [default: the one of `speck local up`, if it exists].", exists=True
    )
    coordinator: Settings = Settings()
    token_file: Path | None = _file(
        "--token-file", "File with the access token [or SPECK_TOKEN_FILE, or SPECK_TOKEN]."
    )
    tokens: Path | None = _file("--tokens", "File with named tokens and their roles (see speck token add).")
    tls_cert: Path | None = _file("--tls-cert", "TLS certificate with its chain (PEM); enables HTTPS.")
    tls_key: Path | None = _file("--tls-key", "Private key of the certificate (PEM, without a password).")
    pair: PairSettings = PairSettings()
    agents: str | None = setting(
        None,
        "--agents",
        "Address at which the agents of sites connect; beyond loopback, it requires --tls-cert.",
        unit="[HOST:]PORT",
    )
    agent_tokens: Path | None = _file(
        "--agent-tokens",
        "File with tokens of sites that do not join by a code (speck token add FILE SITE); for --agents.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "--allow-host",
        "Additional host name of the server; may be repeated.",
        unit="NAME",
        repeated=True,
        shows_default=False,
    )
    rate: float | None = setting(
        None,
        "--rate",
        "Maximum requests/s of one client; 0: unlimited "
        f"[default: unlimited on loopback, {CLIENT_RATE:g} beyond].",
        kind=float,
        unit="REQUESTS",
        least=0,
    )

    ending: float = setting(
        120.0,
        "--shutdown",
        "Time for running operations to finish at shutdown; unfinished ones resume at the next start.",
        kind=float,
        unit="SECONDS",
        least=0,
        most=86_400,
    )

    def __post_init__(self) -> None:
        _check(self, self._tokens_fault(), self._tls_fault(), self._agents_fault())

    def _tokens_fault(self) -> str | None:
        both = self.token_file is not None and self.tokens is not None
        return "--tokens and --token-file exclude each other (expected one of them)" if both else None

    def _agents_fault(self) -> str | None:
        alone = self.agents is None and self.agent_tokens is not None
        return "--agent-tokens requires --agents" if alone else None

    def _tls_fault(self) -> str | None:
        one = (self.tls_cert is None) != (self.tls_key is None)
        return "--tls-cert and --tls-key must be given together" if one else None
