"""A client of the server's REST interface, for the command line.

Requests is imported at the first request: it takes a quarter of the start of a command that makes none.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from speck.core.foreign_text import one_line
from speck.core.names import JOB_NAME
from speck.core.settings import HOST, PORT
from speck.errors import ServerError

if TYPE_CHECKING:
    import requests

DEFAULT_URL = f"http://{HOST}:{PORT}"
_CONNECT = 5.0  # s
_CHUNK = 256 << 10  # bytes
_PAGE = 200  # operations; the most that the server lists in one answer
_PART = 4 << 20  # bytes of a file in one request
_FORGOTTEN = (404, 410)
_READ = 60.0  # s, in addition to the time that the server was asked to wait

Code = Mapping[str, str]  # the hashes of files, by their path in a composition
NO_CODE: Code = MappingProxyType({})


class NoServer(ServerError):
    """No server listens at the address."""


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


class Client:
    """A client of one server.  Answers are plain data, as in the OpenAPI document.

    ``token`` is a bearer token, or a function that returns it; ``ca`` a PEM file of the authorities that are
    trusted instead of the system's; ``proxy`` the URL of a proxy.  Those of the environment are not used.

    Methods raise :class:`~speck.errors.ServerError` if there is no answer, and :class:`RequestRefused` if the
    answer is an error.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | Callable[[], str | None] | None = None,
        ca: Path | None = None,
        proxy: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.read_timeout = _READ
        self._login = _Login(token if callable(token) else lambda: token)
        self._ca = str(ca) if ca is not None else None
        self._proxy = proxy

    def plan(
        self,
        text: bytes,
        name: str,
        base_revision: int | None = None,
        leave_behind: Sequence[str] = (),
        give_up: bool = False,
        place: str | None = None,
        code: Code = NO_CODE,
        build: bool = False,
        all_code: bool = False,
    ) -> dict[str, Any]:
        """The plan of a composition's text; ``leave_behind`` are the addresses that it abandons.

        ``code`` are the hashes of files that were sent (:meth:`send_artifact`), by their path in the text.
        With ``build``, engines build the new forms of jobs; with ``all_code``, every change of a file counts
        for all of its jobs.  ``give_up`` allows to lose messages in sessions
        that jobs leave; ``place`` is ``new``, ``all`` or ``none``: the jobs to find sites for.
        """
        allowed = {"leave_behind": list(leave_behind), "give_up": give_up or None, "place": place}
        allowed |= {"build": build or None, "all_code": all_code or None}
        return self._apply(text, name, code, dry_run="true", base_revision=base_revision, **allowed)

    def apply(
        self,
        text: bytes,
        name: str,
        *,
        base_revision: int | None = None,
        wait: float = 0,
        plan: str = "",
        code: Code = NO_CODE,
        **extra: Any,
    ) -> dict[str, Any]:
        """Apply a composition's text; returns the operation.  ``code``: as of :meth:`plan`.

        With the id of a ``plan`` of this text, the text is sent only if the server has forgotten the plan.
        """
        query = {"base_revision": base_revision, "wait": wait, **extra}
        if plan:
            try:
                return self._one("POST", "/compositions", name=name, plan=plan, **query)
            except RequestRefused as refusal:
                if refusal.status not in _FORGOTTEN:
                    raise
        return self._apply(text, name, code, **query)

    def _apply(self, text: bytes, name: str, code: Code, **query: Any) -> dict[str, Any]:
        query = {"name": name, **query}
        answer: dict[str, Any] = self._ask("POST", "/compositions", query=query, **_body(text, code))
        return answer

    def adopt(self, text: bytes, name: str, code: Code = NO_CODE, **query: Any) -> dict[str, Any]:
        """Adopt running copies of a lost store; returns the operation, for ``dry_run`` the plan.

        Without a text, those of the last revision of ``name``; ``query`` may name the ``job``s (a list).
        """
        query = {"name": name, **query}
        answer: dict[str, Any] = self._ask("POST", "/adoptions", query=query, **_body(text, code))
        return answer

    def send_artifact(self, sha256: str, path: Path) -> bool:
        """Send a file with this hash, in parts, unless the server has it; goes on where a part is there.

        False: the server accepts no code, and nothing was sent.
        """
        known = self._known_artifact(sha256)
        if known.get("complete") or known.get("accepted") is False:
            return bool(known.get("complete"))
        with path.open("rb") as file:
            file.seek(int(known.get("received", 0)))
            size = os.fstat(file.fileno()).st_size
            while True:
                query = {"offset": file.tell(), "size": size}
                headers = {"Content-Type": "application/octet-stream"}
                part = file.read(_PART)
                answer = self._ask("PUT", f"/artifacts/{sha256}", query=query, data=part, headers=headers)
                if answer["complete"] or not part:
                    return bool(answer["complete"])

    def _known_artifact(self, sha256: str) -> dict[str, Any]:
        """The server's answer about a file, which it has or has not."""
        with self._translated(self.read_timeout):
            timeout = (_CONNECT, self.read_timeout)
            answer = self._send("GET", f"/artifacts/{sha256}", timeout=timeout)
            found: dict[str, Any] = (
                answer.json() if answer.status_code == HTTPStatus.NOT_FOUND else self._body(answer)
            )
        return found

    def place(self, text: bytes, name: str, code: Code = NO_CODE, **wishes: Any) -> dict[str, Any]:
        """Propose a placement of a composition's text.  ``code``: as of :meth:`plan`.

        ``wishes`` are ``policy``, ``compare``, ``site_constraints``, ``pin`` and ``explain``.
        """
        query = {"composition": name, **wishes}
        answer: dict[str, Any] = self._ask("POST", "/placements", query=query, **_body(text, code))
        return answer

    def advise(self, name: str, **wishes: Any) -> dict[str, Any]:
        """Propose a placement of what runs of a composition; ``wishes`` as of :meth:`place`."""
        return self._one("POST", "/placements", composition=name, **wishes)

    def placements(self) -> list[dict[str, Any]]:
        """The proposed placements, newest first."""
        return self._many("/placements")

    def placement(self, identifier: str) -> dict[str, Any]:
        """One proposed placement."""
        return self._one("GET", f"/placements/{_quoted(identifier)}")

    def accept(self, identifier: str, *, wait: float = 0, **why: Any) -> dict[str, Any]:
        """Apply a proposed placement; returns the operation.  ``why``: as of :meth:`delete_job`."""
        return self._one("POST", f"/placements/{_quoted(identifier)}/accept", wait=wait, **why)

    def plan_pin(self, job: str, **change: Any) -> dict[str, Any]:
        """The plan of :meth:`pin`."""
        return self._one("POST", f"/jobs/{_quoted(job)}/pin", dry_run="true", **change)

    def pin(self, job: str, *, wait: float = 0, **change: Any) -> dict[str, Any]:
        """Keep a job where it runs, or at ``site``, or (``pin``: ``false``) no longer; returns the operation.

        The other ``change`` is as of :meth:`delete_job`.
        """
        return self._one("POST", f"/jobs/{_quoted(job)}/pin", wait=wait, **change)

    def policies(self) -> list[dict[str, Any]]:
        """The placement policies."""
        return self._many("/policies")

    def adaptations(self) -> dict[str, Any]:
        """The loop that adapts placements, and its state for each composition."""
        return self._one("GET", "/adapt")

    def adaptation(self, name: str) -> dict[str, Any]:
        """The loop's decisions, steps and bans of a composition."""
        return self._one("GET", f"/adapt/{_quoted(name)}")

    def pause_adaptation(self, name: str, seconds: float) -> dict[str, Any]:
        """Make no step of a composition for so long; returns what :meth:`adaptation` does."""
        return self._one("POST", f"/adapt/{_quoted(name)}", pause=seconds)

    def resume_adaptation(self, name: str) -> dict[str, Any]:
        """End a pause; returns what :meth:`adaptation` does."""
        return self._one("POST", f"/adapt/{_quoted(name)}", resume="true")

    def operation(self, identifier: str) -> dict[str, Any]:
        """One operation."""
        return self._one("GET", f"/operations/{_quoted(identifier)}")

    def operations(self, limit: int = 50, composition: str = "") -> list[dict[str, Any]]:
        """The last operations (on a composition), newest first, without their actions."""
        found: list[dict[str, Any]] = []
        while len(found) < limit:
            size = min(_PAGE, limit - len(found))
            before = found[-1]["id"] if found else ""
            page = self._many("/operations", limit=size, composition=composition, before=before)
            found += page
            if len(page) < size:
                break
        return found

    def follow(self, identifier: str, pause: float = 0.25) -> Iterator[dict[str, Any]]:
        """Poll the operation every ``pause`` seconds; the last value is the ended operation."""
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

    def splits(self) -> list[dict[str, Any]]:
        """All splits by keys, with their jobs."""
        return self._many("/splits")

    def split_windows(self, name: str, after: float = 0.0) -> list[dict[str, Any]]:
        """The last windows of a split's measured work that ended later than ``after`` (Unix time, s)."""
        return self._many(f"/splits/{_quoted(name)}/windows", after=after)

    def split(self, name: str) -> dict[str, Any]:
        """One split by keys."""
        return self._one("GET", f"/splits/{_quoted(name)}")

    def plan_job_deletion(
        self, name: str, leave_behind: Sequence[str] = (), give_up: bool | None = None
    ) -> dict[str, Any]:
        """The plan of :meth:`delete_job`."""
        query = {"leave_behind": list(leave_behind), "give_up": give_up}
        return self._one("DELETE", f"/jobs/{_quoted(name)}", dry_run="true", **query)

    def delete_job(self, name: str, wait: float = 0, **why: Any) -> dict[str, Any]:
        """Stop and delete one job; returns the operation."""
        return self._one("DELETE", f"/jobs/{_quoted(name)}", wait=wait, **why)

    def compositions(self) -> list[dict[str, Any]]:
        """All compositions."""
        return self._many("/compositions")

    def deleted_compositions(self) -> list[dict[str, Any]]:
        """The deleted compositions whose history is retained."""
        return self._many("/deleted-compositions")

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
        """The differences between two revisions."""
        return self._one("GET", f"/compositions/{_quoted(name)}/diff", before=before, after=after)

    def code_difference(
        self, name: str, before: int | None = None, after: int | None = None
    ) -> dict[str, Any]:
        """The same with the lines of code that differ; it takes a token with the role write."""
        return self._one("GET", f"/compositions/{_quoted(name)}/code-diff", before=before, after=after)

    def plan_rollback(
        self,
        name: str,
        revision: int | None = None,
        base_revision: int | None = None,
        give_up: bool = False,
    ) -> dict[str, Any]:
        """The plan of a rollback."""
        path = f"/compositions/{_quoted(name)}/rollback"
        query = {"revision": revision, "base_revision": base_revision, "give_up": give_up or None}
        return self._one("POST", path, dry_run="true", **query)

    def rollback(
        self,
        name: str,
        revision: int | None = None,
        *,
        base_revision: int | None = None,
        wait: float = 0,
        **why: Any,
    ) -> dict[str, Any]:
        """Go back to an earlier revision; returns the operation.  ``why``: as of :meth:`delete_job`."""
        path = f"/compositions/{_quoted(name)}/rollback"
        return self._one("POST", path, revision=revision, base_revision=base_revision, wait=wait, **why)

    def plan_deletion(self, name: str, leave_behind: Sequence[str] = ()) -> dict[str, Any]:
        """The plan of a composition's deletion."""
        path = f"/compositions/{_quoted(name)}"
        return self._one("DELETE", path, dry_run="true", leave_behind=list(leave_behind))

    def delete_composition(
        self, name: str, *, base_revision: int | None = None, wait: float = 0, **why: Any
    ) -> dict[str, Any]:
        """Stop and delete all jobs of a composition; returns the operation."""
        path = f"/compositions/{_quoted(name)}"
        return self._one("DELETE", path, base_revision=base_revision, wait=wait, **why)

    def sites(self) -> list[dict[str, Any]]:
        """The site inventory, with the reachability of each engine and broker."""
        return self._many("/sites")

    def workers(self, site: str | None = None) -> list[dict[str, Any]]:
        """The engines whose workers come and go, of one site or of all, with their workers."""
        return self._many("/workers" if site is None else f"/sites/{_quoted(site)}/workers")

    def check_sites(self) -> list[dict[str, Any]]:
        """The health checks of all engines and brokers."""
        return self._many("/sites/check")

    def check_sites_from_engines(self) -> list[dict[str, Any]]:
        """The same, with the brokers that jobs at each engine do not reach; takes a slot for a moment."""
        answer: list[dict[str, Any]] = self._ask("POST", "/sites/check", query={})
        return answer

    def doctor(self) -> list[dict[str, Any]]:
        """Findings that may lose messages or keep a job from going on, each with its remedy."""
        return self._many("/doctor")

    def left_behind(self) -> list[dict[str, Any]]:
        """The abandoned attempts and sessions, and the orphans of the last round; ``kind`` is which."""
        return self._many("/left-behind")

    def forget_left_behind(self, places: Sequence[str], author: str = "") -> list[dict[str, Any]]:
        """Forget what was abandoned at places that never come back; returns the remaining entries."""
        query = {"place": list(places), "author": author}
        answer: list[dict[str, Any]] = self._ask("DELETE", "/left-behind", query=query)
        return answer

    def log(self, name: str, lines: int = 100) -> dict[str, Any]:
        """The last lines of a job's log at its engine."""
        return self._one("GET", f"/jobs/{_quoted(name)}/logs", lines=lines)

    def engine_plan(self, name: str) -> dict[str, Any]:
        """The plan by which its engine executes a job, with its features."""
        return self._one("GET", f"/jobs/{_quoted(name)}/engine-plan")

    def curves(self, name: str) -> dict[str, Any]:
        """The rates of a job over the last hour, a point a minute."""
        return self._one("GET", f"/jobs/{_quoted(name)}/curves")

    def rates(self) -> dict[str, Any]:
        """The rates and the lag of all jobs, as last sampled."""
        return self._one("GET", "/rates")

    def profile(self, composition: str = "") -> dict[str, Any]:
        """The profiles of all jobs (of one composition) and of all sites."""
        return self._one("GET", "/profile", composition=composition)

    def measure(
        self, composition: str, seconds: float, links: bool = False, sites: bool = False
    ) -> dict[str, Any]:
        """Have the jobs sampled for so many seconds; returns at once, with the end.

        ``links`` and ``sites``: probe those too.
        """
        probed = {"links": links or None, "sites": sites or None}
        return self._one("POST", "/profile", composition=composition, seconds=seconds, **probed)

    def links(self) -> list[dict[str, Any]]:
        """The links between sites."""
        return self._many("/links")

    def events(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """The audit log's last entries (by ``composition``, ``job``, ``operation``, ``since``)."""
        return self._many("/events", limit=limit, **filters)

    def check_store(self) -> list[dict[str, Any]]:
        """The faults of the server's store."""
        return self._many("/store/check")

    def back_up(self) -> Iterator[bytes]:
        """A backup of the server's store in chunks; complete if the iteration ends without an error."""
        timeout = (_CONNECT, self.read_timeout)
        with self._translated(self.read_timeout):
            answer = self._send("GET", "/store/backup", timeout=timeout, stream=True)
            if not answer.ok:
                self._body(answer)
            with answer:
                yield from answer.iter_content(_CHUNK)

    def _one(self, method: str, path: str, **query: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(method, path, query=query)
        return answer

    def _many(self, path: str, **query: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask("GET", path, query=query)
        return answer

    def _ask(self, method: str, path: str, *, query: Mapping[str, Any], **kwargs: Any) -> Any:
        sent = {key: value for key, value in query.items() if value is not None and value != ""}
        wait = self.read_timeout + float(query.get("wait") or 0)
        timeout = (min(_CONNECT, wait), wait)
        with self._translated(wait):
            return self._body(self._send(method, path, params=sent, timeout=timeout, **kwargs))

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

    def _send(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        if self._ca is not None:
            kwargs["verify"] = self._ca
        # SpecK's server does not redirect, and another server must not receive the token.
        return self._session.request(method, self.url + path, allow_redirects=False, **kwargs)

    @contextmanager
    def _translated(self, waited: float) -> Iterator[None]:
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

    def _body(self, answer: requests.Response) -> Any:
        """The data of an answer; raises its problem."""
        try:
            body = answer.json()
        except ValueError as error:
            if answer.ok and not answer.is_redirect:
                raise
            raise ServerError(f"{self.url} answered{self._through()} {_foreign(answer)}") from error
        if answer.ok and not answer.is_redirect:
            return body
        if not isinstance(body, dict):
            raise ServerError(f"{self.url} is not a SpecK server (its answer has another format)")
        detail = body.get("detail", answer.reason)
        raise RequestRefused(answer.status_code, str(detail), list(body.get("faults", ())))


def _body(text: bytes, code: Code) -> dict[str, Any]:
    """A composition as the body of a request: its text, or a form with the hashes of its code too."""
    if not code:
        return {"data": text, "headers": {"Content-Type": "application/yaml"}}
    parts = [("composition", ("composition.yaml", text, "application/yaml"))]
    return {"files": parts, "data": {_part_name(path): f"sha256:{sha256}" for path, sha256 in code.items()}}


def _part_name(path: str) -> str:
    """The name of a path's part of a form: in quotes a backslash is an escape, which requests leaves out."""
    return path.replace("\\", "\\\\")


def _foreign(answer: requests.Response) -> str:
    """The answer of a proxy before the server, or of another program, in one line."""
    said, location = one_line(answer.text), one_line(answer.headers.get("Location", ""))
    status = f"HTTP {answer.status_code}{f', {said!r}' if said else ''}"
    if answer.is_redirect and location:
        return (
            f"{status}, and redirects to {location} (expected the address of the server itself in --server)"
        )
    if answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return f"{status}, of a proxy before it (expected client_max_body_size 5m there)"
    return f"{status}, which is not the answer of a SpecK server (of a proxy before it?)"


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


def _quoted(name: str) -> str:
    if not JOB_NAME.match(name):
        raise ServerError(f"{name!r} is not a name (expected letters, digits, '.', '_', '-')")
    return quote(name, safe="")
