"""The clients of one broker behind a lock, with a bounded time for each call, and SpecK's errors."""

from __future__ import annotations

import logging
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from binders.common.timers import begin_timer
from binders.common.tls_errors import explain_tls_error
from binders.kafka.address import BrokerAddress
from binders.kafka.probe import LoginRefused, answers, check_login
from binders.kafka.security import Security
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

TIMEOUT = 10.0  # s, for one call
IDLE_TIMEOUT = 5.0  # s, after which the connections are closed
_PAUSE = 0.1  # s, before a request is repeated
_CLIENT = "speck-control"
_FETCH_WAIT_MS = 50  # for a record that may not be there

_T = TypeVar("_T")


class Connected:
    """The clients of an open connection; each is made when it is needed first."""

    def __init__(self, address: BrokerAddress, security: Security, timeout: float) -> None:
        """Connect; raises the errors of the clients."""
        from kafka.admin import KafkaAdminClient

        # At DEBUG the client logs its whole configuration; what it warns of is raised here too.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._options: dict[str, Any] = {
            "bootstrap_servers": address.servers,
            "client_id": _CLIENT,
            "request_timeout_ms": max(1, int(timeout * 1000)),
            **security.options(),
        }
        self.admin: Any = KafkaAdminClient(**self._options, bootstrap_timeout_ms=max(1, int(timeout * 1000)))

    @cached_property
    def producer(self) -> Any:
        """A producer, for the records of the control topic."""
        from kafka import KafkaProducer

        milliseconds = self._options["request_timeout_ms"]
        return KafkaProducer(
            **self._options, acks="all", max_block_ms=milliseconds, delivery_timeout_ms=milliseconds + 100
        )

    @cached_property
    def consumer(self) -> Any:
        """A consumer, for the records of the control topic."""
        from kafka import KafkaConsumer

        return KafkaConsumer(**self._options, group_id=None, enable_auto_commit=False)

    @cached_property
    def single(self) -> Any:
        """A consumer of the records at single places: the broker sends no more than the batch of one."""
        from kafka import KafkaConsumer

        return KafkaConsumer(
            **self._options,
            group_id=None,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            fetch_max_bytes=1,
            max_partition_fetch_bytes=1,
            max_poll_records=1,
        )

    def close(self) -> None:
        """Close all clients."""
        for name in ("producer", "consumer", "single"):
            if (client := self.__dict__.get(name)) is not None:
                with suppress(Exception):  # of a broker that is away: there is nothing to save
                    client.close(timeout=0) if name == "producer" else client.close(autocommit=False)
        with suppress(Exception):
            self.admin.close()


class Client:
    """The connection to a broker.  Thread-safe: one call at a time; idle connections are closed."""

    def __init__(self, address: BrokerAddress, login: Login, timeout: float) -> None:
        self._address = address
        self._login = login
        self.timeout = timeout
        self._lock = threading.RLock()  # the clients' own calls must not mix, nor a record with its reading
        self._connected: Connected | None = None
        self._timer: threading.Timer | None = None
        self._used = 0.0
        self.generation = 0  # of connections: what was read over an older one may be of another cluster

    def run(self, doing: str, work: Callable[[Connected], _T], *, writes: bool = False) -> _T:
        """Run a call, and repeat requests that the broker asks to repeat, within the time of a call.

        ``writes``: its outcome is not known after an error of the connection.  Raises
        :class:`~speck.errors.BinderError`.
        """
        with self._lock:
            deadline = time.monotonic() + self.timeout
            while True:
                connected = self._connect(deadline)
                try:
                    with self._translated(doing, writes=writes):
                        return work(connected)
                except _Again as again:
                    if time.monotonic() + _PAUSE > deadline:
                        raise again.error from again.error.__cause__
                    time.sleep(_PAUSE)
                finally:
                    self._use()

    @contextmanager
    def _translated(self, doing: str, *, writes: bool) -> Iterator[None]:
        from kafka import errors

        try:
            yield
        except BinderError:
            raise
        except (errors.KafkaError, OSError) as error:
            text = f"{self._address.text}: {doing}: {first_line(error)}"
            lost = isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError | OSError)
            if lost:
                self._drop()
                unknown = OutcomeUnknown if writes else Unreachable
                raise unknown(text, address=self._address.text) from error
            rejected = Rejected(text, address=self._address.text)
            rejected.__cause__ = error
            if isinstance(error, errors.KafkaError) and error.retriable:
                raise _Again(rejected) from error
            raise rejected from error

    def _connect(self, deadline: float) -> Connected:
        if self._connected is None:
            remaining = max(0.1, deadline - time.monotonic())
            security = Security.of(self._address, self._login)
            try:
                self._check_login(security, remaining)
                with self._translated("cannot be connected", writes=False):
                    connected = Connected(self._address, security, remaining)
            except ImportError as error:
                text = f"{self._address.text}: kafka-python is not installed (pip install 'speck[kafka]')"
                raise Rejected(text, address=self._address.text) from error
            self.generation += 1
            try:
                self._probe_advertised(connected, security, remaining)
            except BaseException:
                connected.close()
                raise
            self._connected = connected
        return self._connected

    def _check_login(self, security: Security, timeout: float) -> None:
        """Log in to the first broker of the address that can be reached."""
        brokers = self._address.brokers
        for left, (host, port) in zip(reversed(range(len(brokers))), brokers, strict=True):
            try:
                with self._probing("cannot be reached", host):
                    check_login(host, port, timeout / len(brokers), security)
                return
            except LoginRefused as error:
                raise Rejected(f"{self._address.text} {error}", address=self._address.text) from error
            except Unreachable:
                if not left:
                    raise

    @contextmanager
    def _probing(self, named: str, host: str) -> Iterator[None]:
        address = self._address.text
        try:
            yield
        except ssl.SSLError as error:
            why = explain_tls_error(error, host, self._login)
            raise Unreachable(f"{address} {named}: no TLS connection: {why}", address=address) from error
        except OSError as error:
            closed = isinstance(error, ConnectionResetError) and not self._address.tls
            hint = " (expected kafkas:// if it uses TLS)" if closed else ""
            raise Unreachable(f"{address} {named}: {error}{hint}", address=address) from error
        except (ValueError, struct.error) as error:
            hint = "" if self._address.tls else "; kafkas:// if it uses TLS"
            text = f"{address} does not answer as a Kafka broker (expected the address of one{hint})"
            raise Rejected(text, address=address) from error

    def _probe_advertised(self, connected: Connected, security: Security, timeout: float) -> None:
        with self._translated("the cluster cannot be described", writes=False):
            brokers = connected.admin.describe_cluster()["brokers"]
        for each in brokers:
            host, port = each["host"], each["port"]
            if (host, port) not in self._address.brokers:
                named = (
                    f"answers, but names its broker {each['broker_id']} {host}:{port}, which cannot be "
                    "reached from here (expected advertised.listeners that engines and coordinator reach)"
                )
                with self._probing(named, host):
                    answers(host, port, timeout, security)

    def _use(self) -> None:
        self._used = time.monotonic()
        if self._timer is None and self._connected is not None:
            self._timer = begin_timer(IDLE_TIMEOUT, self._close_idle)

    def _close_idle(self) -> None:
        with self._lock:
            self._timer = None
            left = self._used + IDLE_TIMEOUT - time.monotonic()
            if left > 0 and self._connected is not None:
                self._timer = begin_timer(left, self._close_idle)
            else:
                self._drop()

    def _drop(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._drop()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None


class _Again(Exception):
    """A request that may succeed when it is repeated; ``error`` if there is no time left for it."""

    def __init__(self, error: Rejected) -> None:
        super().__init__()
        self.error = error


def first_line(error: Exception) -> str:
    """The text of an error of the client, without its request."""
    text = str(error) or type(error).__name__
    return text.partition("\n")[0].partition(": Request '")[0]
