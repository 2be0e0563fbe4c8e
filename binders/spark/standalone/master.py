"""HTTP client for a Spark standalone cluster.

Requests go to three servers: the master's REST server (``/v1/submissions``: create, kill), the master's web
interface (``/json/``: workers, drivers, applications), and the workers' web interfaces (``/log/``: logs of
drivers).  Sources: Spark 4.3, ``deploy/rest/RestSubmissionServer``, ``deploy/JsonProtocol``,
``deploy/worker/ui/LogPage``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from binders.common.bearer import checked_token
from binders.spark.query.text import first_line
from speck.binder.bounded_http import CUT, FAILURE, NEVER_SENT, Answer, HttpClient, TooLarge
from speck.core.inventory import Engine
from speck.errors import OutcomeUnknown, Rejected, Unreachable

DEFAULT_PORT = 7077  # of a master; the two below are Spark's defaults as well
REST_PORT = 6066
UI_PORT = 8080

ANSWER_TIMEOUT = 10.0  # s, for the whole answer

ACTIVE = frozenset({"SUBMITTED", "RUNNING"})  # of a driver's states: it runs, or will

_LEADS = "ALIVE"  # of a master's states (RecoveryState of Spark)
_NOT_LEADING = "Current state is not alive"  # how its REST server refuses a driver in any other state

# Advice for a port without a server, or with another one.
_EXPECTED = {
    "(rest_port)": "spark.master.rest.enabled of the master to be true, and rest_port to be its port",
    "(ui_port)": "ui_port of the inventory to be the port of its web interface",
}

_LOG_HEAD = re.compile(r"==== Bytes \d+-\d+ of (?P<length>\d+) of [^\n]* ====\n")
_MEGABYTE = 1 << 20
_ERRORS = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is alive; memory is bytes."""

    id: str
    url: str
    cores: int
    cores_free: int
    memory: int
    memory_free: int


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver in the master's list; ``worker`` is empty while it waits for one."""

    id: str
    state: str
    worker: str
    main_class: str

    @property
    def active(self) -> bool:
        """True if it runs, or waits to."""
        return self.state in ACTIVE

    @property
    def order(self) -> tuple[str, int]:
        """Sorts drivers by age: an id is ``driver-TIME-NUMBER``, the number with four digits or more."""
        head, _, number = self.id.rpartition("-")
        return head, int(number) if number.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as reported by the master at one time.

    ``applications`` are the names of those that are registered, ``waiting`` of those that have no executor.
    ``url`` is the address by which the master refers to itself.
    """

    workers: tuple[Worker, ...]
    drivers: tuple[Driver, ...]
    applications: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    url: str = ""

    def worker(self, identifier: str) -> Worker | None:
        """The worker with this id, if it is alive."""
        return next((each for each in self.workers if each.id == identifier), None)


@dataclass(frozen=True, slots=True)
class Log:
    """A part of a log, and the time (Unix time, s, by the worker's clock) at which it was read."""

    text: str
    read_at: float


class Master:
    """The cluster at one ``spark://HOST:PORT``.

    Every call raises :class:`~speck.errors.Unreachable`, :class:`~speck.errors.OutcomeUnknown` or
    :class:`~speck.errors.Rejected`.
    """

    def __init__(self, address: str, engine: Engine) -> None:
        self.address = address
        host, self.url = _parts(address)
        self.rest = f"http://{host}:{engine.rest_port or REST_PORT}"
        self.ui = f"http://{host}:{engine.ui_port or UI_PORT}"
        self.host = host.strip("[]")
        self._login = engine.engine_login
        self._web = HttpClient()

    @property
    def token(self) -> str | None:
        """The current token of its REST server.  Raises :class:`~speck.errors.Unreachable`."""
        return checked_token(self.address, self._login.token.reveal()) if self._login.token else None

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def version(self) -> str:
        """The version of the cluster's Spark, as reported by its REST server."""
        url = f"{self.rest}/v1/submissions/status/driver-none"
        return str(self._json("GET", url, "REST server (rest_port)").get("serverSparkVersion", "unknown"))

    def version_fault(self, expected: str) -> str | None:
        """The reason why the cluster's Spark does not fit the expected version; ``None`` if it does."""
        version = self.version()
        if version.split(".")[:2] == expected.split(".")[:2]:
            return None
        return f"Spark master {self.address} has version {version} (expected {expected})"

    def date(self) -> float:
        """The master's clock, in whole seconds (Unix time); 0 if it does not report it."""
        return _date(self._request("GET", f"{self.ui}/json/", "web interface (ui_port) of Spark master"))

    def address_fault(self, cluster: Cluster) -> str | None:
        """The reason why drivers would not reach the master at this address; ``None`` if they may.

        Only the port is compared: the host may have several names; drivers retry a wrong port for a minute.
        """
        own = _port(cluster.url)
        if own is None or own == _port(self.url):
            return None
        return (
            f"{self.address} is not the address of the master whose web interface is {self.ui} "
            f"(expected port {own}: its own address is {cluster.url})"
        )

    def check_worker(self, worker: Worker) -> None:
        """Check that a worker's web interface answers."""
        self._request("GET", f"{worker.url}/json/", f"worker {worker.id} of Spark master")

    def cluster(self) -> Cluster:
        """The current workers, drivers and applications.

        Raises :class:`~speck.errors.OutcomeUnknown` for a master that does not lead: a standby lists no
        drivers, and a master in recovery not all of them yet.
        """
        content = self._json("GET", f"{self.ui}/json/", "web interface (ui_port)")
        state = str(content.get("status", _LEADS))
        if state != _LEADS:
            message = f"Spark master {self.address} does not lead: it is {state.lower().replace('_', ' ')}"
            raise OutcomeUnknown(
                f"{message} (expected the address of the one that does)", address=self.address
            )
        try:
            return _cluster(content)
        except _ERRORS as error:
            where = f"the web interface (ui_port) of Spark master {self.address} at {self.ui}"
            message = f"{where} is not a master's{_advice(where)}"
            raise OutcomeUnknown(message, address=self.address) from error

    def create(self, request: Mapping[str, Any]) -> str:
        """Submit a driver; returns its id.

        Raises :class:`~speck.errors.Unreachable` for a master that does not lead, which starts nothing.
        """
        content = self._json("POST", f"{self.rest}/v1/submissions/create", "REST server (rest_port)", request)
        identifier = content.get("submissionId")
        if not content.get("success") or not isinstance(identifier, str):
            message = first_line(str(content.get("message") or "no reason given"))
            if message.startswith(_NOT_LEADING):
                text = f"Spark master {self.address} does not lead: {message}"
                raise Unreachable(text, address=self.address)
            raise Rejected(f"Spark master {self.address} rejects the driver: {message}", address=self.address)
        return identifier

    def kill(self, driver: str) -> None:
        """Request the end of a driver; nothing for one that has ended or is unknown."""
        self._json("POST", f"{self.rest}/v1/submissions/kill/{driver}", "REST server (rest_port)")

    def failure(self, driver: str) -> str:
        """The master's reason for giving up a driver; empty if it reports none."""
        content = self._json("GET", f"{self.rest}/v1/submissions/status/{driver}", "REST server (rest_port)")
        lines = str(content.get("message") or "").splitlines()
        return first_line("\n".join(line for line in lines if not line.startswith("Exception from")))

    def log(self, worker: Worker, driver: str, kind: str, *, start: int | None, length: int) -> Log:
        """``length`` bytes of a driver's ``stderr``, ``stdout`` or ``out``: from ``start``, or the last."""
        query = {"driverId": driver, "logType": kind, "byteLength": str(length)}
        if start is not None:
            query["offset"] = str(start)
        answer = self._request("GET", f"{worker.url}/log/?{urlencode(query)}", f"worker {worker.id}")
        head = _LOG_HEAD.match(answer.text)
        if head is None:
            message = f"worker {worker.id} of {self.address} serves no log of {driver} at {worker.url}"
            raise OutcomeUnknown(message, address=self.address)
        return Log(answer.text[head.end() :], _date(answer))

    def request_stop(self, url: str, token: str) -> bool:
        """Send a driver the request to stop; true if it accepted it."""
        try:
            headers = {"Authorization": f"Bearer {token}"}
            answer = self._web.request("POST", url, seconds=ANSWER_TIMEOUT, headers=headers)
        except FAILURE:
            return False
        return answer.status == HTTPStatus.ACCEPTED

    def physical_plan(self, url: str, token: str) -> str:
        """The physical plan of a driver's query, as text.

        Raises :class:`~speck.errors.Unreachable`, :class:`~speck.errors.OutcomeUnknown` and
        :class:`~speck.errors.Rejected` (a driver of an earlier version has no such answer).
        """
        headers = {"Authorization": f"Bearer {token}"}
        return self._request("GET", f"{url}/plan", "driver of Spark master", headers=headers).text

    def _json(
        self, method: str, url: str, what: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        answer = self._request(method, url, what, body=body)
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            content = error
        if isinstance(content, dict):
            return content
        where = f"the {what} of Spark master {self.address} at {_origin(url)}"
        raise OutcomeUnknown(f"{where} returned no JSON object{_advice(where)}", address=self.address)

    def _request(
        self,
        method: str,
        url: str,
        what: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        where = f"the {what} {self.address} at {_origin(url)}"
        sent = dict(headers or {})
        if url.startswith(f"{self.rest}/") and (token := self.token) is not None:
            sent["Authorization"] = f"Bearer {token}"
        content = None
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            answer = self._web.request(method, url, seconds=ANSWER_TIMEOUT, body=content, headers=sent)
        except FAILURE as error:
            raise self._unanswered(where, error) from error
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise OutcomeUnknown(f"{where} answered {answer.status}", address=self.address)
        if answer.status != HTTPStatus.OK:
            reason = _reason(answer) or _advice(where)
            raise Rejected(f"{where} answered {answer.status}{reason}", address=self.address)
        return answer

    def _unanswered(self, where: str, error: Exception) -> Unreachable | OutcomeUnknown:
        if isinstance(error, NEVER_SENT):
            return Unreachable(f"{where} cannot be reached{_advice(where)}", address=self.address)
        if isinstance(error, CUT):
            return OutcomeUnknown(f"{where} closed the connection{_advice(where)}", address=self.address)
        if isinstance(error, TooLarge):
            return OutcomeUnknown(f"{where}: {error}{_advice(where)}", address=self.address)
        return OutcomeUnknown(f"{where} did not answer in {ANSWER_TIMEOUT:g} s", address=self.address)


def _parts(address: str) -> tuple[str, str]:
    """Host (in brackets when it needs them) and canonical address of a master."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme != "spark" or parts.path.strip("/"):
        message = f"{address!r} is not a Spark master's address (expected spark://HOST:PORT)"
        raise Rejected(message, address=address)
    host = f"[{host}]" if ":" in host else host
    return host, f"spark://{host}:{port or DEFAULT_PORT}"


def _cluster(content: Mapping[str, Any]) -> Cluster:
    workers = tuple(_worker(each) for each in content["workers"] if each["state"] == "ALIVE")
    drivers = [_driver(each) for each in [*content["activedrivers"], *content["completeddrivers"]]]
    return Cluster(
        workers,
        tuple(sorted(drivers, key=lambda driver: driver.order)),
        applications=frozenset(str(each["name"]) for each in content["activeapps"]),
        waiting=frozenset(str(each["name"]) for each in content["activeapps"] if each["state"] == "WAITING"),
        url=str(content.get("url", "")),
    )


def _worker(content: Mapping[str, Any]) -> Worker:
    return Worker(
        id=str(content["id"]),
        url=_checked(str(content["webuiaddress"])).rstrip("/"),
        cores=int(content["cores"]),
        cores_free=int(content["coresfree"]),
        memory=int(content["memory"]) * _MEGABYTE,
        memory_free=int(content["memoryfree"]) * _MEGABYTE,
    )


def _driver(content: Mapping[str, Any]) -> Driver:
    worker = str(content["worker"])
    worker = "" if worker == "None" else worker
    return Driver(str(content["id"]), str(content["state"]), worker, str(content["mainclass"]))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _checked(url: str) -> str:
    _origin(url)
    return url


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _date(answer: Answer) -> float:
    try:
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except _ERRORS:
        return 0.0


def _advice(where: str) -> str:
    return next((f" (expected {expected})" for what, expected in _EXPECTED.items() if what in where), "")


def _reason(answer: Answer) -> str:
    try:
        message = first_line(str(json.loads(answer.body)["message"]))
    except (*_ERRORS, RecursionError):
        return ""
    return f": {message}"
