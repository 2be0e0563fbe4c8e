"""The two servers of a pair as one: finds the primary, and follows a take-over.

A server is asked ``/healthz`` before it gets a request, until it has answered one: a server that was stopped,
or whose machine lost its power, then costs seconds, and a request without effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from speck.errors import ServerError

if TYPE_CHECKING:
    import requests

TAKE_OVER = 20.0  # s; a take-over takes up to 10, and a large store longer to open
_PAUSE = 0.5  # s between two rounds of both servers


class NoServer(ServerError):
    """No server listens at the address; or, of a pair, none is the primary."""


class LostAnswer(ServerError):
    """A request that is not repeated may have been carried out: its answer was lost."""


def urls_of(text: str) -> tuple[str, ...]:
    """The addresses in ``URL`` or ``URL,URL``, each without the slash at its end."""
    return tuple(each.strip().rstrip("/") for each in text.split(","))


def fault_of(urls: tuple[str, ...]) -> str:
    """The fault of the addresses of a pair, in words; empty without one."""
    for each in urls:
        try:
            parts = urlsplit(each)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            whole = False
        if not whole:
            return (
                f"{each!r} of {','.join(urls)!r} is not the address of a server (expected http://HOST:PORT)"
            )
    if len(set(urls)) < len(urls):
        return f"{','.join(urls)!r} names a server twice (expected both servers of a pair)"
    return ""


def is_standby(answer: requests.Response) -> bool:
    """True for the refusal of a standby, which has done nothing."""
    return _refusal(answer).get("role") == "standby"


def is_shutting_down(answer: requests.Response) -> bool:
    """True for the refusal of a server that shuts down, which has done nothing."""
    return _refusal(answer).get("shutting_down") is True


def _refusal(answer: requests.Response) -> dict[str, Any]:
    """The problem of a server that is not available, empty for another answer."""
    if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
        return {}
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


@dataclass
class Pair:
    """The servers at ``urls``; ``look(url)`` is an answer of one to a request without effect.

    ``clock`` gives seconds.  Not for use by several threads at once.
    """

    urls: tuple[str, ...]
    look: Callable[[str], requests.Response]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _at: int = field(default=0, init=False)
    _found: bool = field(default=False, init=False)  # the present one has answered as the primary

    @property
    def url(self) -> str:
        """The address of the server that is, or was, the primary as far as known."""
        return self.urls[self._at]

    def send(
        self, request: Callable[[str], requests.Response], *, once: bool, patience: float
    ) -> requests.Response:
        """The answer of the primary to ``request(url)``, which is made again where its answer was lost.

        With ``once`` it is not.  While a standby answers and no primary, a take-over is awaited for
        ``patience`` s, as while the primary shuts down.  Raises :class:`NoServer`, :class:`LostAnswer`, and
        the errors of requests that are not those of one server.
        """
        until, awaited = self.clock() + patience, False
        while True:
            reasons = dict[str, str]()
            for _ in self.urls:
                answer, reason, waits = self._tried(request, once)
                if answer is not None:
                    return answer
                reasons[self.url], awaited = reason, awaited or waits
                self._at, self._found = (self._at + 1) % len(self.urls), False
            if not awaited:
                raise NoServer(
                    f"no SpecK server at {' or '.join(self.urls)} (start one with `speck serve`, or name it "
                    "with --server)"
                )
            if self.clock() >= until:
                each = "; ".join(f"{url} {reason}" for url, reason in reasons.items())
                raise NoServer(f"no server of the pair is the primary: {each}")
            self.sleep(_PAUSE)

    def _tried(
        self, request: Callable[[str], requests.Response], once: bool
    ) -> tuple[requests.Response | None, str, bool]:
        """The answer of the present server, or the reason why not, and whether to await a take-over."""
        import requests
        from requests.exceptions import ChunkedEncodingError  # an answer that ends amid its body

        away = requests.ConnectionError, requests.Timeout, ChunkedEncodingError
        sent = False
        try:
            if not self._found and (detail := self._standby()):
                return None, detail, True
            sent = True
            answer = request(self.url)
        except requests.RequestException as error:
            is_cut = not is_unsent(error)  # as the connections of a standby are that becomes the primary
            lost = sent and is_cut
            is_late = isinstance(error, requests.ReadTimeout)
            if lost and is_late and self._is_primary():  # it is slow, and still the primary
                raise
            if lost and once:
                raise LostAnswer(
                    f"the answer of {self.url} was lost, and the request may have been carried out (check "
                    "before you repeat it)"
                ) from error
            if not isinstance(error, away):
                raise
            return None, "does not respond" if is_late else "does not answer", is_cut
        if is_standby(answer) or is_shutting_down(answer):
            return None, _detail(answer), True
        self._found = True
        return answer, "", False

    def _standby(self) -> str:
        """The answer of the present server if it is a standby; empty for a primary."""
        answer = self.look(self.url)
        return _detail(answer) if is_standby(answer) else ""

    def _is_primary(self) -> bool:
        import requests

        try:
            return not self._standby()
        except requests.RequestException:
            return False


def _detail(answer: requests.Response) -> str:
    return f"answers: {answer.json().get('detail', 'a standby')}"


def is_unsent(error: requests.RequestException) -> bool:
    """True if there was no connection, so that the server has not received the request."""
    import requests
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    if isinstance(error, requests.ConnectTimeout | requests.exceptions.ProxyError):
        return True
    reason = error.args[0] if error.args else None
    return isinstance(reason, MaxRetryError) and isinstance(reason.reason, NewConnectionError)
