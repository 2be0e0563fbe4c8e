"""The server's REST interface, as the command line uses it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import requests
import urllib3

from speck.errors import ServerError
from speck.model import JOB_NAME

DEFAULT_URL = "http://127.0.0.1:8180"
_CONNECT = 5.0  # s
_PIECE = 256 * 1024  # bytes read at once
_READ = 60.0  # s, beyond what the server was asked to wait


# What requests raises for an address before it connects to anything.
_NO_ADDRESS = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    urllib3.exceptions.LocationValueError,
    UnicodeError,
)


class RequestRefused(ServerError):
    """The server answered with a problem: its HTTP ``status``, and ``faults`` where input was at fault."""

    def __init__(self, status: int, detail: str, faults: list[dict[str, Any]]) -> None:
        self.status, self.faults = status, faults
        super().__init__(detail)


class Client:
    """A connection to one server.  Answers are plain data, as the OpenAPI document describes them.

    Raises :class:`~speck.errors.ServerError` when there is no answer, or no way to ask;
    :class:`RequestRefused` when the answer is an error.
    """

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()
        if token and not (token.isascii() and token.isprintable()):
            raise ServerError("the token (SPECK_TOKEN) is none (expected one line of printable ASCII)")
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def plan(self, text: bytes, name: str, base_revision: int | None = None) -> dict[str, Any]:
        """The plan of a composition's text."""
        return self._apply(text, name, dry_run="true", base_revision=base_revision)

    def apply(
        self, text: bytes, name: str, *, base_revision: int | None = None, wait: float = 0, **extra: Any
    ) -> dict[str, Any]:
        """Apply a composition's text; answers the operation."""
        return self._apply(text, name, base_revision=base_revision, wait=wait, **extra)

    def _apply(self, text: bytes, name: str, **query: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/yaml"}
        answer: dict[str, Any] = self._ask(
            "POST", "/compositions", query={"name": name, **query}, data=text, headers=headers
        )
        return answer

    def operation(self, identifier: str) -> dict[str, Any]:
        """One operation."""
        return self._one("GET", f"/operations/{_quoted(identifier)}")

    def follow(self, identifier: str, pause: float = 0.25) -> Iterator[dict[str, Any]]:
        """The operation again and again, ``pause`` seconds apart, the last time when it has ended."""
        while True:
            operation = self.operation(identifier)
            yield operation
            if operation["state"] != "running":
                return
            time.sleep(pause)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs."""
        return self._many("/jobs")

    def job(self, name: str) -> dict[str, Any]:
        """One job."""
        return self._one("GET", f"/jobs/{_quoted(name)}")

    def delete_job(self, name: str, wait: float = 0, **why: str) -> dict[str, Any]:
        """Stop and forget one job; answers the operation."""
        return self._one("DELETE", f"/jobs/{_quoted(name)}", wait=wait, **why)

    def compositions(self) -> list[dict[str, Any]]:
        """All compositions."""
        return self._many("/compositions")

    def composition(self, name: str) -> dict[str, Any]:
        """One composition."""
        return self._one("GET", f"/compositions/{_quoted(name)}")

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """A composition's history."""
        return self._many(f"/compositions/{_quoted(name)}/revisions")

    def revision(self, name: str, number: int) -> dict[str, Any]:
        """One revision with its jobs."""
        return self._one("GET", f"/compositions/{_quoted(name)}/revisions/{number}")

    def difference(self, name: str, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """What differs between two revisions."""
        return self._one("GET", f"/compositions/{_quoted(name)}/diff", before=before, after=after)

    def plan_rollback(
        self, name: str, revision: int | None = None, base_revision: int | None = None
    ) -> dict[str, Any]:
        """The plan of a rollback."""
        path = f"/compositions/{_quoted(name)}/rollback"
        return self._one("POST", path, revision=revision, base_revision=base_revision, dry_run="true")

    def rollback(
        self,
        name: str,
        revision: int | None = None,
        *,
        base_revision: int | None = None,
        wait: float = 0,
        **why: str,
    ) -> dict[str, Any]:
        """Go back to an earlier revision; answers the operation.  ``why``: ``author`` and ``message``."""
        path = f"/compositions/{_quoted(name)}/rollback"
        return self._one("POST", path, revision=revision, base_revision=base_revision, wait=wait, **why)

    def delete_composition(self, name: str, wait: float = 0, **why: str) -> dict[str, Any]:
        """Stop and forget all jobs of a composition; answers the operation."""
        return self._one("DELETE", f"/compositions/{_quoted(name)}", wait=wait, **why)

    def sites(self) -> list[dict[str, Any]]:
        """The site inventory with what can be reached."""
        return self._many("/sites")

    def check_sites(self) -> list[dict[str, Any]]:
        """What each engine and each broker tells of itself, and what is wrong."""
        return self._many("/sites/check")

    def log(self, name: str, lines: int = 100) -> dict[str, Any]:
        """The last lines that a job's engine has of it."""
        return self._one("GET", f"/jobs/{_quoted(name)}/logs", lines=lines)

    def rates(self) -> dict[str, Any]:
        """The rates and the lag of all jobs, as last sampled."""
        return self._one("GET", "/rates")

    def events(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """The audit log's last entries (by ``composition``, ``job``, ``operation``, ``since``)."""
        return self._many("/events", limit=limit, **filters)

    def check_store(self) -> list[dict[str, Any]]:
        """What is wrong with the server's store."""
        return self._many("/store/check")

    def back_up(self) -> Iterator[bytes]:
        """A backup of the server's store, in pieces; whole when it ends without an error."""
        timeout = (_CONNECT, _READ)
        with self._translated(_READ):
            answer = self._session.get(f"{self.url}/store/backup", timeout=timeout, stream=True)
            if not answer.ok:
                self._body(answer)
            with answer:
                yield from answer.iter_content(_PIECE)

    def _one(self, method: str, path: str, **query: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(method, path, query=query)
        return answer

    def _many(self, path: str, **query: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask("GET", path, query=query)
        return answer

    def _ask(self, method: str, path: str, *, query: Mapping[str, Any], **kwargs: Any) -> Any:
        sent = {key: value for key, value in query.items() if value is not None and value != ""}
        wait = _READ + float(query.get("wait") or 0)
        with self._translated(wait):
            answer = self._session.request(
                method, self.url + path, params=sent, timeout=(_CONNECT, wait), **kwargs
            )
            return self._body(answer)

    @contextmanager
    def _translated(self, waited: float) -> Iterator[None]:
        try:
            yield
        except requests.ReadTimeout as error:
            message = f"the SpecK server at {self.url} does not answer (waited {waited:g} s)"
            raise ServerError(message) from error
        except requests.ConnectionError as error:
            raise ServerError(
                f"no SpecK server at {self.url} (start one with `speck serve`, or name it with --server)"
            ) from error
        except requests.JSONDecodeError as error:
            raise ServerError(f"{self.url} does not answer as a SpecK server does") from error
        except _NO_ADDRESS as error:
            message = f"{self.url!r} is not a server's address (expected http://HOST:PORT)"
            raise ServerError(message) from error
        except requests.RequestException as error:
            raise ServerError(f"{self.url}: {error}") from error

    def _body(self, answer: requests.Response) -> Any:
        """The answer's data; an error that it tells of is raised."""
        body = answer.json()
        if answer.ok:
            return body
        if not isinstance(body, dict):
            raise ServerError(f"{self.url} does not answer as a SpecK server does")
        detail = body.get("detail", answer.reason)
        raise RequestRefused(answer.status_code, str(detail), list(body.get("faults", ())))


def _quoted(name: str) -> str:
    if not JOB_NAME.match(name):
        raise ServerError(f"{name!r} is not a name (expected letters, digits, '.', '_', '-')")
    return quote(name, safe="")
