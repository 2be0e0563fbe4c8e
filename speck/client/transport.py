"""Requests to a server, and its answers: plain data, or one of SpecK's errors.

Requests is imported at the first request: it takes a quarter of the start of a command that makes none.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speck.client.pair import TAKE_OVER, NoServer, Pair, fault_of, urls_of
from speck.client.restart import RESTART, through_restart
from speck.core.foreign_text import one_line
from speck.core.settings import HOST, PORT
from speck.errors import ServerError

if TYPE_CHECKING:
    import requests

DEFAULT_URL = f"http://{HOST}:{PORT}"
CONNECT = 5.0  # s
_READING = ("GET", "HEAD")
# s, in addition to the time that the server was asked to wait: a plan with builds takes 85 s where engines
# are late at each of its questions.
_READ = 120.0


class RequestRefused(ServerError):
    """The server answered with a problem: its HTTP ``status``, and the ``faults`` of invalid input."""

    def __init__(self, status: int, detail: str, faults: list[dict[str, Any]]) -> None:
        self.status, self.faults = status, faults
        super().__init__(detail)


class _Login:
    """Sends the token, which is read at the first request, and no other login (such as one of .netrc)."""

    def __init__(self, token: Callable[[], str | None]) -> None:
        self._token = cache(token)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if token := self._token():
            request.headers["Authorization"] = f"Bearer {token}"
        return request


class Transport:
    """The connection to one server, or to the primary of a pair: ``url`` is its address, or ``URL,URL``.

    ``token`` is a bearer token, or a function that returns it; ``ca`` a PEM file of the authorities that are
    trusted instead of the system's; ``proxy`` the URL of a proxy.  Those of the environment are not used.

    Methods raise :class:`~speck.errors.ServerError` if there is no answer, and :class:`RequestRefused` if the
    answer is an error.  Not for use by several threads at once.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | Callable[[], str | None] | None = None,
        ca: Path | None = None,
        proxy: str | None = None,
    ) -> None:
        self._pair = Pair(urls_of(url), self._look)
        self.read_timeout = _READ
        self.answered = False  # the server has answered a request with data
        self._login = _Login(token if callable(token) else lambda: token)
        self._ca = str(ca) if ca is not None else None
        self._proxy = proxy

    @property
    def url(self) -> str:
        """The address of the server; of a pair, that of the present primary as far as known."""
        return self._pair.url

    @property
    def urls(self) -> tuple[str, ...]:
        """The address of the server, or those of the pair."""
        return self._pair.urls

    def one(self, method: str, path: str, **query: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask(method, path, query=query)
        return answer

    def many(self, path: str, **query: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.ask("GET", path, query=query)
        return answer

    def ask(
        self, method: str, path: str, *, query: Mapping[str, Any], once: bool = False, **kwargs: Any
    ) -> Any:
        """The data of the answer to a request.

        A server that shuts down gets it again when it has restarted.  Where its answer is lost, a pair gets
        it again, with the key of the first time, so that an operation begins once.  With ``once`` it is not
        made again: repeated, it would have another effect or answer.
        """
        sent = {key: value for key, value in query.items() if value is not None and value != ""}
        _refuse_undecoded(sent)
        wait = self.read_timeout + float(query.get("wait") or 0)
        timeout = (min(CONNECT, wait), wait)
        with self.translated(wait):
            return self.body(self.send(method, path, once=once, params=sent, timeout=timeout, **kwargs))

    @cached_property
    def _session(self) -> requests.Session:
        import requests

        session = requests.Session()
        # Proxies of the environment are for web pages: few reach a server on this machine or in a local net.
        session.trust_env = False
        if self._proxy is not None:
            session.proxies = {"http": self._proxy, "https": self._proxy}
        authorities = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        session.verify = authorities or True
        session.auth = self._login
        session.headers["X-Requested-By"] = "speck"
        return session

    def send(self, method: str, path: str, *, once: bool = False, **kwargs: Any) -> requests.Response:
        """The answer to a request.  ``once``: as of :meth:`ask`."""
        if method not in _READING:
            kwargs["headers"] = {**kwargs.get("headers", {}), "Idempotency-Key": secrets.token_hex(16)}

        def request(url: str) -> requests.Response:
            return self._request(method, url + path, **kwargs)

        if len(self.urls) == 1:
            patience = min(RESTART, self.read_timeout)
            return through_restart(lambda: request(self.url), once=once, patience=patience)
        if fault := fault_of(self.urls):
            raise ServerError(fault)
        return self._pair.send(request, once=once, patience=min(TAKE_OVER, self.read_timeout))

    def _look(self, url: str) -> requests.Response:
        """The answer of a server that shows whether it is the primary."""
        patience = min(CONNECT, self.read_timeout)
        return self._request("GET", f"{url}/healthz", timeout=(patience, patience))

    def _request(self, method: str, url: str, **kwargs: Any) -> requests.Response:
        if self._ca is not None:
            kwargs["verify"] = self._ca
        # SpecK's server does not redirect, and another server must not receive the token.
        return self._session.request(method, url, allow_redirects=False, **kwargs)

    @contextmanager
    def translated(self, waited: float) -> Iterator[None]:
        import requests
        from requests.exceptions import InvalidProxyURL, InvalidSchema, InvalidURL, MissingSchema
        from urllib3.exceptions import LocationValueError

        try:
            yield
        except requests.ReadTimeout as error:
            message = f"the SpecK server at {self.url} does not respond (waited {waited:g} s)"
            raise ServerError(message) from error
        except requests.exceptions.SSLError as error:
            raise ServerError(f"{self.url}: {_distrust(error)}") from error
        except requests.exceptions.ProxyError as error:
            message = (
                f"the proxy {_shown(self._proxy or '')} does not connect to {self.url} (--proxy, SPECK_PROXY)"
            )
            raise ServerError(message) from error
        except requests.ConnectionError as error:
            raise NoServer(
                f"no SpecK server at {self.url} (start one with `speck serve`, or name it with --server)"
            ) from error
        except requests.JSONDecodeError as error:
            message = f"{self.url} is not a SpecK server (its answer{self._through()} has another format)"
            raise ServerError(message) from error
        except InvalidProxyURL as error:
            message = (
                f"{_shown(self._proxy or '')!r} is not the address of a proxy (expected http://HOST:PORT)"
            )
            raise ServerError(message) from error
        except (InvalidURL, InvalidSchema, MissingSchema, LocationValueError, UnicodeError) as error:
            message = f"{self.url!r} is not the address of a server (expected http://HOST:PORT)"
            raise ServerError(message) from error
        except requests.RequestException as error:
            raise ServerError(f"{self.url}: {error}") from error

    def _through(self) -> str:
        return f", through the proxy {_shown(self._proxy)}," if self._proxy else ""

    def body(self, answer: requests.Response) -> Any:
        """The data of an answer; raises its problem."""
        try:
            body = answer.json()
        except ValueError as error:
            if answer.ok and not answer.is_redirect:
                raise
            raise ServerError(f"{self.url} answered{self._through()} {_foreign(answer)}") from error
        if answer.ok and not answer.is_redirect:
            self.answered = True
            return body
        if not isinstance(body, dict):
            raise ServerError(f"{self.url} is not a SpecK server (its answer has another format)")
        detail = body.get("detail", answer.reason)
        raise RequestRefused(answer.status_code, str(detail), list(body.get("faults", ())))


def _refuse_undecoded(query: Mapping[str, Any]) -> None:
    """Raise :class:`~speck.errors.ServerError` for a text of the command line in another encoding."""
    for key, value in query.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            try:
                str(each).encode()
            except UnicodeEncodeError:
                shown = str(each).encode("utf-8", "backslashreplace").decode()
                message = f"{key} '{shown}' is not UTF-8 text (expected a terminal in UTF-8)"
                raise ServerError(message) from None


def _foreign(answer: requests.Response) -> str:
    """The answer of a proxy before the server, or of another program, in one line."""
    said, location = one_line(answer.text), one_line(answer.headers.get("Location", ""))
    status = f"HTTP {answer.status_code}{f', {said!r}' if said else ''}"
    if answer.is_redirect and location:
        return (
            f"{status}, and redirects to {location} (expected the address of the server itself in --server)"
        )
    if answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return f"{status}, from a proxy in front of it (expected client_max_body_size 5m there)"
    return f"{status}, which is not the answer of a SpecK server (is there a proxy in front of it?)"


def _shown(proxy: str) -> str:
    """The address of a proxy without the login in it."""
    return re.sub(r"//[^/\s]*@", "//***@", proxy)


def _distrust(error: Exception) -> str:
    """The reason for a failed TLS connection, in one line."""
    text = str(error)
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return "it does not use TLS (expected http:// in its address)"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        advice = "name its authority with --ca or SPECK_CA"
        return f"its certificate is not accepted: {reason or 'not trusted'} ({advice})"
    return "the TLS connection failed"
