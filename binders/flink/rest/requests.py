"""Requests to Flink's REST interface; translates its errors into SpecK's.

An answer that is not Flink's (a proxy's error page, another program) counts as no answer: the outcome of the
request is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from binders.common.tls_errors import explain_tls_error, find_tls_error
from binders.flink.rest import validation
from binders.flink.rest.connections import Connections
from binders.flink.rest.stack_trace import root_cause
from speck.binder.bounded_http import CUT, FAILURE, LATE, NEVER_SENT, TLS, Answer, TooLarge
from speck.core.foreign_text import one_line
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

QUICK = 30.0  # s, for an answer that Flink has in memory
SLOW = 120.0  # s, for running a job's main method, and for a file

# Of a request that may be sent again: time-out, too early, too many.
_UNDECIDED = frozenset({408, 425, 429})
_UNKNOWN_JOB = "FlinkJobNotFoundException"
_NOT_READY = "UnavailableDispatcherOperationException"
_HINT = "is it a JobManager's REST address?"


class FlinkRefused(Rejected):
    """Flink answered with an error; ``trace`` is its full text, up to some kilobytes."""

    def __init__(self, message: str, *, address: str, status: int, trace: str) -> None:
        super().__init__(message, address=address)
        self.status = status
        self.trace = trace

    @property
    def of_unknown_job(self) -> bool:
        """True if Flink does not know the requested job."""
        return _UNKNOWN_JOB in self.trace or (self.status == 404 and "not found" in self.trace.lower())

    @property
    def of_initializing_job(self) -> bool:
        """True if the requested job is initializing, and Flink cannot report on it yet."""
        return _NOT_READY in self.trace


class NotReady(OutcomeUnknown):
    """The requested job is initializing, and Flink cannot report on it yet."""


class FlinkRequests:
    """Requests at an address such as ``http://HOST:8081/``; thread-safe.

    An answer is awaited for ``quick`` or ``slow`` seconds.  Raises :class:`~speck.errors.Unreachable` when
    there is no connection, :class:`~speck.errors.OutcomeUnknown` without an answer of Flink's, and
    :class:`FlinkRefused`.
    """

    def __init__(self, address: str, login: Login = Login()) -> None:  # noqa: B008 - frozen
        self.address = address
        self.quick, self.slow = QUICK, SLOW
        self._login = login
        self._connections = Connections(address, login)
        self._answered = False

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _get(self, path: str) -> Any:
        try:
            return self._ask("GET", path)
        except OutcomeUnknown as error:
            if not isinstance(error.__cause__, CUT):
                raise
            # A pooled connection may have been closed in the meantime; a GET is safe to repeat.
            return self._ask("GET", path)

    def _get_of_job(self, job: str, path: str) -> dict[str, Any] | None:
        try:
            answer = self._get(f"/jobs/{job}{path}")
        except FlinkRefused as error:
            if error.of_unknown_job:
                return None
            if error.of_initializing_job:
                raise NotReady(f"{error} (try again)", address=self.address) from error
            raise
        if not isinstance(answer, dict):
            raise self._unexpected(f"/jobs/:id{path}")
        return answer

    def _text(self, path: str, *, most: int, tail: int) -> str:
        """The last ``tail`` bytes of a file; the download of one of more than ``most`` bytes is aborted."""
        try:
            answer = self._connections.request("GET", path, self.slow, most=most, tail=tail)
        except TooLarge as error:
            raise Rejected(f"{self.address}{path} is too large", address=self.address) from error
        except FAILURE as error:
            raise self._unanswered(error, self.slow) from error
        if not _is_ok(answer) or "json" in answer.headers.get("Content-Type", ""):
            self._read(answer)
            raise self._unexpected(path)
        return answer.text

    def _ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "", timeout: float | None = None
    ) -> Any:
        timeout = self.quick if timeout is None else timeout
        try:
            response = self._connections.request(method, path, timeout, body, kind)
        except FAILURE as error:
            raise self._unanswered(error, timeout) from error
        return self._read(response)

    def _read(self, response: Answer) -> Any:
        try:
            body = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            body = None
            cause: Exception | None = error
        else:
            cause = None
        if _is_ok(response) and cause is None:
            self._answered = True
            return body
        if response.status in (401, 403):
            raise Rejected(
                f"{self.address} rejects the login (HTTP {response.status}; expected engine_login "
                "of the site with a username and password, or a token, that are valid there)",
                address=self.address,
            )
        errors = body.get("errors") if isinstance(body, dict) else None
        if not isinstance(errors, list) or response.status in (502, 503, 504):
            if 300 <= response.status < 500 and response.status not in _UNDECIDED:
                raise self._foreign_refusal(response) from cause
            raise self._unexpected(f"HTTP {response.status}") from cause
        trace = "\n".join(str(each) for each in errors)
        raise FlinkRefused(
            f"{self.address}: {root_cause(trace)}",
            address=self.address,
            status=response.status,
            trace=trace,
        )

    @contextmanager
    def _validated(self, what: str) -> Iterator[None]:
        try:
            yield
        except validation.MALFORMED as error:
            raise self._unexpected(what) from error

    def _foreign_refusal(self, response: Answer) -> Rejected:
        """The refusal of a proxy, or of another program, which has passed nothing on to a Flink."""
        status, location = response.status, response.headers.get("Location", "")
        secrets = self._connections.secrets()
        said = "" if any(each in response.text for each in secrets) else one_line(response.text)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            expected = (
                "a larger client_max_body_size of the proxy, or rest.server.max-content-length of Flink"
            )
        elif status < HTTPStatus.BAD_REQUEST and location:
            expected = f"the address that it redirects to, {one_line(location)}, if that is a Flink"
        else:
            expected = "a JobManager's REST address"
        text = f"HTTP {status}{f': {said}' if said else ''}"
        message = f"{self.address} refuses the request ({text}; expected {expected})"
        return Rejected(message, address=self.address)

    def _unexpected(self, what: str) -> OutcomeUnknown:
        message = f"{self.address} gave an answer that is not Flink's ({what}; {_HINT})"
        return OutcomeUnknown(message, address=self.address)

    def _unanswered(self, error: Exception, timeout: float) -> BinderError:
        why = _innermost(error)
        fault = find_tls_error(error)
        if fault is not None:
            host = urlsplit(self.address).hostname or ""
            reason = explain_tls_error(fault, host, self._login)
            return Unreachable(f"{self.address}: no TLS connection: {reason}", address=self.address)
        if isinstance(error, TLS):
            return Unreachable(f"{self.address}: no TLS connection: {why}", address=self.address)
        if isinstance(error, NEVER_SENT):
            return Unreachable(f"{self.address} cannot be reached: {why}", address=self.address)
        hint = "" if self._answered else f" ({_HINT})"
        if isinstance(error, TooLarge):
            return OutcomeUnknown(f"{self.address}: {error}{hint}", address=self.address)
        if isinstance(error, LATE):
            return OutcomeUnknown(
                f"{self.address} did not answer in {timeout:g} s{hint}", address=self.address
            )
        return OutcomeUnknown(f"{self.address}: the connection broke: {why}{hint}", address=self.address)


def _is_ok(response: Answer) -> bool:
    return response.status < 400


def _innermost(error: BaseException) -> str:
    """The message of the innermost error, in one line."""
    while True:
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return one_line(str(error)) or type(error).__name__  # it may quote arbitrary bytes of another program
