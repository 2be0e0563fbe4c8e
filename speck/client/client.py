"""A client of the server's REST interface, for the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from speck.client.transport import CONNECT, RequestRefused, Transport
from speck.core.names import JOB_NAME
from speck.errors import ServerError

_CHUNK = 256 << 10  # bytes
_PAGE = 200  # operations; the most that the server lists in one answer
_PART = 4 << 20  # bytes of a file in one request
_NAMED = 5  # jobs that are named before the others are counted
_FORGOTTEN = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)

Code = Mapping[str, str]  # the hashes of files, by their path in a composition
NO_CODE: Code = MappingProxyType({})


class Client(Transport):
    """A client of one server, or of a pair.  Answers are plain data, as in the OpenAPI document."""

    def plan(self, text: bytes, name: str, code: Code = NO_CODE, **query: Any) -> dict[str, Any]:
        """The plan of a composition's text.

        ``code`` are the hashes of files that were sent (:meth:`send_artifact`), by their path in the text.
        ``query`` may have ``base_revision``, ``leave_behind`` (a list of the addresses that are abandoned),
        ``give_up`` (messages may be lost in sessions that jobs leave), ``place`` (``new``, ``all`` or
        ``none``: the jobs to find sites for), and ``all_code`` (every change of a file counts for all of its
        jobs).  ``wave`` is a list of the sites to change first; the jobs of each must run for ``settle`` s
        before the next one begins.  With ``build``, engines build the new forms of jobs; with ``steps``, the
        plan's steps are answered too, in their order.  ``None`` is as not given.
        """
        return self._apply(text, name, code, **query, dry_run="true")

    def apply(
        self,
        text: bytes,
        name: str,
        *,
        plan: Mapping[str, Any] | None = None,
        code: Code = NO_CODE,
        **query: Any,
    ) -> dict[str, Any]:
        """Apply a composition's text; returns the operation.  ``code``: as of :meth:`plan`.

        With the ``plan`` of this text and ``query``, that one is carried out.  If the server has forgotten
        it, the text is planned again, and refused where another plan comes out than the one that was shown.
        """
        if plan is None:
            return self._apply(text, name, code, **query)
        try:
            return self.one("POST", "/compositions", name=name, plan=plan["plan"], **query)
        except RequestRefused as refusal:
            if refusal.status not in _FORGOTTEN:
                raise
        again = self._apply(text, name, code, **query | {"dry_run": "true"})
        if changed := _differences(plan, again):
            composition = plan["composition"]
            detail = f"composition {composition!r}: the plan has changed since it was shown: {changed}"
            raise RequestRefused(HTTPStatus.CONFLICT, f"{detail} (plan again)", [])
        return self.one("POST", "/compositions", name=name, plan=again["plan"], **query)

    def _apply(self, text: bytes, name: str, code: Code, **query: Any) -> dict[str, Any]:
        query = {"name": name, **query}
        answer: dict[str, Any] = self.ask("POST", "/compositions", query=query, **_body(text, code))
        return answer

    def adopt(self, text: bytes, name: str, code: Code = NO_CODE, **query: Any) -> dict[str, Any]:
        """Adopt running copies of a lost store; returns the operation, for ``dry_run`` the plan.

        Without a text, those of the last revision of ``name``; ``query`` may name the ``job``s (a list).
        """
        query = {"name": name, **query}
        answer: dict[str, Any] = self.ask("POST", "/adoptions", query=query, **_body(text, code))
        return answer

    def send_artifact(self, sha256: str, path: Path) -> bool:
        """Upload a file with this hash in parts, unless it is at the server; resume after the received parts.

        False: the server accepts no code, and nothing was sent.
        """
        known = self._known_artifact(sha256)
        if known.get("complete") or known.get("accepted") is False:
            return bool(known.get("complete"))
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while True:
                offset = file.seek(int(known.get("received", 0)))
                part = file.read(_PART)
                known = self._send_part(sha256, part, offset, size)
                if known["complete"] or not part:
                    return bool(known["complete"])

    def _send_part(self, sha256: str, part: bytes, offset: int, size: int) -> dict[str, Any]:
        """Send a part of a file of ``size`` bytes; returns what the server has of it then."""
        query, headers = {"offset": offset, "size": size}, {"Content-Type": "application/octet-stream"}
        answer: dict[str, Any]
        try:
            answer = self.ask("PUT", f"/artifacts/{sha256}", query=query, data=part, headers=headers)
        except RequestRefused as refusal:
            if refusal.status != HTTPStatus.CONFLICT:
                raise
            # Another client sends the same file, or this part came before, and its answer was lost.
            answer = {"complete": False, **self._known_artifact(sha256)}
            if answer.get("received", offset) == offset:
                raise
        return answer

    def _known_artifact(self, sha256: str) -> dict[str, Any]:
        """The server's answer about a file, which it has or has not."""
        with self.translated(self.read_timeout):
            timeout = (CONNECT, self.read_timeout)
            answer = self.send("GET", f"/artifacts/{sha256}", timeout=timeout)
            found: dict[str, Any] = (
                answer.json() if answer.status_code == HTTPStatus.NOT_FOUND else self.body(answer)
            )
        return found

    def place(self, text: bytes, name: str, code: Code = NO_CODE, **options: Any) -> dict[str, Any]:
        """Propose a placement of a composition's text.  ``code``: as of :meth:`plan`.

        ``options`` are ``policy``, ``compare``, ``site_constraints``, ``pin`` and ``explain``.
        """
        query = {"composition": name, **options}
        answer: dict[str, Any] = self.ask("POST", "/placements", query=query, **_body(text, code))
        return answer

    def advise(self, name: str, **options: Any) -> dict[str, Any]:
        """Propose a placement of what runs of a composition; ``options`` as of :meth:`place`."""
        return self.one("POST", "/placements", composition=name, **options)

    def placements(self) -> list[dict[str, Any]]:
        """The proposed placements, newest first."""
        return self.many("/placements")

    def placement(self, identifier: str) -> dict[str, Any]:
        """One proposed placement."""
        return self.one("GET", f"/placements/{_quoted(identifier)}")

    def accept(self, identifier: str, *, wait: float = 0, **why: Any) -> dict[str, Any]:
        """Apply a proposed placement; returns the operation.  ``why``: as of :meth:`change`."""
        return self.one("POST", f"/placements/{_quoted(identifier)}/accept", wait=wait, **why)

    def pin(self, job: str, **query: Any) -> dict[str, Any]:
        """Keep a job where it runs, or at ``site``, or (``pin``: ``false``) no longer: a :meth:`change`."""
        return self.change("POST", f"/jobs/{_quoted(job)}/pin", **query)

    def policies(self) -> list[dict[str, Any]]:
        """The placement policies."""
        return self.many("/policies")

    def adaptations(self) -> dict[str, Any]:
        """The loop that adapts placements, and its state for each composition."""
        return self.one("GET", "/adapt")

    def adaptation(self, name: str) -> dict[str, Any]:
        """The loop's decisions, steps and bans of a composition."""
        return self.one("GET", f"/adapt/{_quoted(name)}")

    def pause_adaptation(self, name: str, seconds: float) -> dict[str, Any]:
        """Pause steps of a composition for this time; returns the same as :meth:`adaptation`."""
        return self.one("POST", f"/adapt/{_quoted(name)}", pause=seconds)

    def resume_adaptation(self, name: str) -> dict[str, Any]:
        """End a pause; returns what :meth:`adaptation` does."""
        return self.one("POST", f"/adapt/{_quoted(name)}", resume="true")

    def operation(self, identifier: str) -> dict[str, Any]:
        """One operation."""
        return self.one("GET", f"/operations/{_quoted(identifier)}")

    def operations(self, limit: int = 50, composition: str = "") -> list[dict[str, Any]]:
        """The last operations (on a composition), newest first, without their actions."""
        found: list[dict[str, Any]] = []
        while len(found) < limit:
            size = min(_PAGE, limit - len(found))
            before = found[-1]["id"] if found else ""
            page = self.many("/operations", limit=size, composition=composition, before=before)
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
        return self.many("/jobs")

    def job(self, name: str) -> dict[str, Any]:
        """One job."""
        return self.one("GET", f"/jobs/{_quoted(name)}")

    def splits(self) -> list[dict[str, Any]]:
        """All splits by keys, with their jobs."""
        return self.many("/splits")

    def split_windows(self, name: str, after: float = 0.0) -> list[dict[str, Any]]:
        """The last windows of a split's measured work that ended later than ``after`` (Unix time, s)."""
        return self.many(f"/splits/{_quoted(name)}/windows", after=after)

    def split(self, name: str) -> dict[str, Any]:
        """One split by keys."""
        return self.one("GET", f"/splits/{_quoted(name)}")

    def delete_job(self, name: str, **query: Any) -> dict[str, Any]:
        """Stop and delete one job: a :meth:`change`."""
        return self.change("DELETE", f"/jobs/{_quoted(name)}", **query)

    def compositions(self) -> list[dict[str, Any]]:
        """All compositions."""
        return self.many("/compositions")

    def deleted_compositions(self) -> list[dict[str, Any]]:
        """The deleted compositions whose history is retained."""
        return self.many("/deleted-compositions")

    def composition(self, name: str) -> dict[str, Any]:
        """One composition."""
        return self.one("GET", f"/compositions/{_quoted(name)}")

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """A composition's history."""
        return self.many(f"/compositions/{_quoted(name)}/revisions")

    def revision(self, name: str, number: int) -> dict[str, Any]:
        """One revision with its jobs."""
        return self.one("GET", f"/compositions/{_quoted(name)}/revisions/{number}")

    def difference(self, name: str, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """The differences between two revisions."""
        return self.one("GET", f"/compositions/{_quoted(name)}/diff", before=before, after=after)

    def code_difference(
        self, name: str, before: int | None = None, after: int | None = None
    ) -> dict[str, Any]:
        """The same with the lines of code that differ; it takes a token with the role write."""
        return self.one("GET", f"/compositions/{_quoted(name)}/code-diff", before=before, after=after)

    def rollback(self, name: str, revision: int | None = None, **query: Any) -> dict[str, Any]:
        """Go back to an earlier revision: a :meth:`change`."""
        return self.change("POST", f"/compositions/{_quoted(name)}/rollback", revision=revision, **query)

    def delete_composition(self, name: str, **query: Any) -> dict[str, Any]:
        """Stop and delete all jobs of a composition: a :meth:`change`."""
        return self.change("DELETE", f"/compositions/{_quoted(name)}", **query)

    def change(self, method: str, path: str, **query: Any) -> dict[str, Any]:
        """Ask for a change; returns the operation, or with ``dry_run="true"`` the plan.

        ``query`` may also have ``author``, ``message``, ``base_revision``, ``wait`` (s), and, where they
        apply, ``leave_behind`` (a list) and ``give_up`` (``None``: not given).
        """
        return self.one(method, path, **query)

    def sites(self) -> list[dict[str, Any]]:
        """The site inventory, with the reachability of each engine and broker."""
        return self.many("/sites")

    def workers(self, site: str | None = None) -> list[dict[str, Any]]:
        """The engines whose workers come and go, of one site or of all, with their workers."""
        return self.many("/workers" if site is None else f"/sites/{_quoted(site)}/workers")

    def check_sites(self) -> list[dict[str, Any]]:
        """The health checks of all engines and brokers."""
        return self.many("/sites/check")

    def check_sites_from_engines(self) -> list[dict[str, Any]]:
        """The same, with the brokers that jobs at each engine do not reach; takes a slot for a moment."""
        answer: list[dict[str, Any]] = self.ask("POST", "/sites/check", query={})
        return answer

    def invite_site(self, name: str) -> dict[str, Any]:
        """A code with which a site joins, and until when it is valid (Unix time, s)."""
        return self.one("POST", f"/sites/{_quoted(name)}/agent")

    def revoke_site(self, name: str) -> dict[str, Any]:
        """Refuse the agent of a site from now on; returns the brokers whose logins the site may have."""
        found: dict[str, Any] = self.ask("DELETE", f"/sites/{_quoted(name)}/agent", query={}, once=True)
        return found

    def remove_site(self, name: str) -> dict[str, Any]:
        """Remove a site that joined from the inventory, and refuse its agent from now on."""
        found: dict[str, Any] = self.ask("DELETE", f"/sites/{_quoted(name)}", query={}, once=True)
        return found

    def upgrade_sites(self, sites: Sequence[str], **query: Any) -> dict[str, Any]:
        """Upgrade the agents of sites (none: of all), or plan it for ``dry_run``; returns the upgrade."""
        query = {"site": list(sites), **query}
        found: dict[str, Any] = self.ask("POST", "/sites/upgrade", query=query, once=True)
        return found

    def upgrade_of_sites(self) -> dict[str, Any]:
        """The upgrade of agents in progress, or the most recent one."""
        return self.one("GET", "/sites/upgrade")

    def doctor(self) -> list[dict[str, Any]]:
        """Findings that may lose messages or keep a job from going on, each with its remedy."""
        return self.many("/doctor")

    def left_behind(self) -> list[dict[str, Any]]:
        """The abandoned attempts and sessions, and the orphans of the last round; ``kind`` is which."""
        return self.many("/left-behind")

    def forget_left_behind(self, places: Sequence[str], author: str = "") -> list[dict[str, Any]]:
        """Forget what was abandoned at places that never come back; returns the remaining entries."""
        query = {"place": list(places), "author": author}
        answer: list[dict[str, Any]] = self.ask("DELETE", "/left-behind", query=query, once=True)
        return answer

    def log(self, name: str, lines: int = 100) -> dict[str, Any]:
        """The last lines of a job's log at its engine."""
        return self.one("GET", f"/jobs/{_quoted(name)}/logs", lines=lines)

    def engine_plan(self, name: str) -> dict[str, Any]:
        """The plan by which its engine executes a job, with its features."""
        return self.one("GET", f"/jobs/{_quoted(name)}/engine-plan")

    def curves(self, name: str) -> dict[str, Any]:
        """The rates of a job over the last hour, a point a minute."""
        return self.one("GET", f"/jobs/{_quoted(name)}/curves")

    def rates(self) -> dict[str, Any]:
        """The rates and the lag of all jobs, as last sampled."""
        return self.one("GET", "/rates")

    def profile(self, composition: str = "") -> dict[str, Any]:
        """The profiles of all jobs (of one composition) and of all sites."""
        return self.one("GET", "/profile", composition=composition)

    def measure(
        self, composition: str, seconds: float, links: bool = False, sites: bool = False
    ) -> dict[str, Any]:
        """Sample the jobs for this number of seconds; returns at once, with the end.

        ``links`` and ``sites``: probe those too.
        """
        probed = {"links": links or None, "sites": sites or None}
        return self.one("POST", "/profile", composition=composition, seconds=seconds, **probed)

    def links(self) -> list[dict[str, Any]]:
        """The links between sites."""
        return self.many("/links")

    def events(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """The audit log's last entries (by ``composition``, ``job``, ``operation``, ``since``)."""
        return self.many("/events", limit=limit, **filters)

    def server_version(self) -> str | None:
        """The version of the server; ``None`` if it does not tell it now."""
        try:
            document = self.one("GET", "/openapi.json")
            return str(document["info"]["version"])
        except (ServerError, LookupError, TypeError):
            return None

    def check_store(self) -> list[dict[str, Any]]:
        """The faults of the server's store."""
        return self.many("/store/check")

    def back_up(self) -> Iterator[bytes]:
        """A backup of the server's store in chunks; complete if the iteration ends without an error."""
        timeout = (CONNECT, self.read_timeout)
        with self.translated(self.read_timeout):
            answer = self.send("GET", "/store/backup", timeout=timeout, stream=True)
            if not answer.ok:
                self.body(answer)
            with answer:
                yield from answer.iter_content(_CHUNK)


def _differences(plan: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """The jobs that another plan of the same text acts on differently, in words; empty if there are none."""
    before, after = ({each["job"]: _shown(each) for each in found["actions"]} for found in (plan, again))
    jobs = [job for job in sorted(before.keys() | after.keys()) if before.get(job) != after.get(job)]
    if not jobs:
        lost = [found["destroys"] for found in (plan, again)]
        return "" if lost[0] == lost[1] else "it destroys something else"
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return f"job {', '.join(map(repr, jobs[:_NAMED]))}{more} {'differs' if len(jobs) == 1 else 'differ'}"


def _shown(action: Mapping[str, Any]) -> list[Any]:
    return [action.get(field) for field in ("kind", "changes", "site", "code")]


def _body(text: bytes, code: Code) -> dict[str, Any]:
    """A composition as the body of a request: its text, or a form with the hashes of its code too."""
    if not code:
        return {"data": text, "headers": {"Content-Type": "application/yaml"}}
    parts = [("composition", ("composition.yaml", text, "application/yaml"))]
    return {"files": parts, "data": {_part_name(path): f"sha256:{sha256}" for path, sha256 in code.items()}}


def _part_name(path: str) -> str:
    """The name of a path's part of a form: in quotes a backslash is an escape, which requests leaves out."""
    return path.replace("\\", "\\\\")


def _quoted(name: str) -> str:
    if not JOB_NAME.match(name):
        raise ServerError(f"{name!r} is not a name (expected letters, digits, '.', '_', '-')")
    return quote(name, safe="")
