"""Binders of engines and brokers at a site with an agent: the class of a binder, its calls over a hub."""

from __future__ import annotations

import base64
import hashlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from pathlib import Path
from typing import IO, Any, cast

from speck.binder import BrokerBinder, BrokerKind, EngineBinder, EngineKind
from speck.binder.deadline import limited
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Found, Handle, JobMetrics, JobState, JobStatus, State
from speck.errors import BinderError, OutcomeUnknown, Rejected, SpeckError, Unreachable
from speck.link.codec import Malformed, decode
from speck.link.frames import LARGEST
from speck.link.hello import versions
from speck.link.hub import Hub
from speck.link.look import Look
from speck.link.methods import (
    END_FEED,
    LOCAL,
    ORDERED,
    RECEIVE,
    STORE,
    Base,
    bound,
    decode_answer,
    encode_arguments,
    is_carried,
    seconds_of,
)
from speck.link.places import places_of

_STORING, _STORING_WHOLE = 120.0, 600.0  # s, for a part of a job's file, and for a whole one
_PART = 1 << 20  # bytes, which an agent holds in memory a few times over
LARGEST_STATE = LARGEST * 7 // 10  # bytes: as base64, with the names of its files


def _later(answer: Any, seconds: float) -> Any:
    """An answer that was right for some seconds more."""
    if not isinstance(answer, Mapping):
        return answer
    return {
        key: replace(each, observed_at=each.observed_at + seconds) if isinstance(each, JobMetrics) else each
        for key, each in answer.items()
    }


@dataclass
class Remote:
    """The way to one engine or broker of a site."""

    hub: Hub
    site: str
    address: str
    inventory: Inventory
    owner: str = ""
    _files: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)
    _storing: threading.Lock = field(default_factory=threading.Lock)

    def call(self, base: Base, method: str, arguments: Mapping[str, Any]) -> Any:
        """Make a call of a binder's method, and return its answer."""
        call: dict[str, Any] = {"e": self.address, "m": method, "o": self.owner}
        job = arguments.get("job")
        if isinstance(job, Job):
            site = self.inventory.sites.get(self.site)
            call["b"] = places_of(job, self.inventory, "" if site is None else site.broker_address)
            call |= self.code_of(Path(job.job_path))
        call["a"] = encode_arguments(arguments)
        if (lasting := self.hub.lasting(self.site, call)) is not None:
            return _later(decode_answer(base, method, lasting[0]), lasting[1])
        found = self.hub.call(self.site, call, limited(seconds_of(method, arguments)), self.address)
        if method == "subscribe":
            return RemoteFeed(self, found)
        try:
            return decode_answer(base, method, found)
        except Malformed as error:
            by = f"{self.address}: the agent of site {self.site!r} answered {method} by another value"
            text = f"{by}: {error} ({self._versions()})"
            # It has done what it was asked for, and a job may run: the coordinator must not discard that.
            kind = OutcomeUnknown if method in ORDERED else BinderError
            raise kind(text, address=self.address) from error

    def _versions(self) -> str:
        found = self.hub.presence(self.site)
        return versions("unknown" if found is None else found.hello.version)

    def ask(self, method: str, arguments: Mapping[str, Any], seconds: float = 30.0) -> Any:
        """Make a call of the link's own."""
        call = {"e": self.address, "m": method, "o": self.owner, "a": dict(arguments)}
        return self.hub.call(self.site, call, limited(seconds), self.address)

    def code_of(self, path: Path) -> dict[str, Any]:
        """The name and hash of a job's file, which is sent if the agent lacks it.

        Nothing for one that cannot be read here: the binder at the site reports that.
        """
        try:
            sha256 = self._hash(path)
            with self._storing:  # so that jobs of one file send it once
                if not self.hub.has_code(self.site, sha256):
                    self._send_code(path, sha256)
        except OSError:
            return {}
        return {"f": {"hash": sha256, "name": path.name}}

    def _send_code(self, path: Path, sha256: str) -> None:
        """Send a file in parts; the agent says where the next one begins, so that it can be resumed.

        Raises :class:`OSError` for a file that cannot be read.
        """
        with path.open("rb") as file:
            size, at = os.fstat(file.fileno()).st_size, 0
            for _ in range(2 * (size // _PART + 1)):  # it may start over once
                file.seek(at)
                content = base64.b64encode(file.read(_PART)).decode()
                part = {"hash": sha256, "size": size, "at": at, "content": content}
                try:
                    answer = self.ask(STORE, part, _STORING)
                except Rejected:
                    if at or size <= _PART:
                        raise
                    answer = self._send_whole(file, sha256, size)
                if isinstance(answer, list):
                    self.hub.note_code(self.site, answer)
                    return
                if not isinstance(answer, int) or not 0 <= answer < size:
                    break
                at = answer
        text = f"{self.address}: the agent of site {self.site!r} does not take the file {path.name!r}"
        raise BinderError(text, address=self.address)

    def _send_whole(self, file: IO[bytes], sha256: str, size: int) -> Any:
        """Send a file to an agent of an earlier version, which takes its first part for the whole file."""
        if size > LARGEST_STATE:
            text = f"{self.address}: the agent of site {self.site!r} takes no file of {size:,} bytes"
            expected = f"expected at most {LARGEST_STATE:,}, or a later agent: {self._versions()}"
            raise Rejected(f"{text} ({expected})", address=self.address)
        file.seek(0)
        content = base64.b64encode(file.read()).decode()
        return self.ask(STORE, {"hash": sha256, "content": content}, _STORING_WHOLE)

    def _hash(self, path: Path) -> str:
        seen = path.stat()
        mark = (seen.st_mtime_ns, seen.st_size)
        known = self._files.get(str(path))
        if known is None or known[0] != mark:
            with path.open("rb") as file:
                known = (mark, hashlib.file_digest(file, "sha256").hexdigest())
            self._files[str(path)] = known
        return known[1]


class RemoteFeed:
    """A subscription that the agent holds."""

    def __init__(self, remote: Remote, number: Any) -> None:
        self._remote, self._number = remote, number

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """See :meth:`speck.binder.Feed.receive`."""
        remote = self._remote
        try:
            found: list[tuple[str, bytes]] = decode(
                list[tuple[str, bytes]], remote.ask(RECEIVE, {"feed": self._number}), "messages"
            )
        except Malformed as error:
            text = f"{remote.address}: the agent of site {remote.site!r} sent other messages: {error}"
            raise BinderError(text, address=remote.address) from error
        return found

    def close(self) -> None:
        """See :meth:`speck.binder.Feed.close`."""
        try:
            self._remote.ask(END_FEED, {"feed": self._number})
        except BinderError:  # the agent ends its feeds with the connection
            return


class _RemoteBinder:
    """The part that remote engines and brokers share."""

    def __init__(self, remote: Remote, prototype: Any) -> None:
        self._remote = remote
        self.log_about = getattr(prototype, "log_about", "")

    @property
    def address(self) -> str:
        """The address of the engine or broker in the inventory."""
        return self._remote.address

    def close(self) -> None:
        """Nothing: the connection is the agent's."""


class _RemoteEngine(_RemoteBinder):
    largest_state = LARGEST_STATE

    def status(self, handle: Handle) -> JobStatus:
        """See :meth:`speck.binder.EngineBinder.status`."""
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> Mapping[str, JobStatus]:
        """See :meth:`speck.binder.EngineBinder.statuses`; by one call, or none if the agent reports all."""
        listed = list(handles)
        if (found := self._looked(self._look(), listed)) is not None:
            return found
        asked: Mapping[str, JobStatus] = {}
        why = f"{self._remote.address}: the agent of site {self._remote.site!r} has not reported it"
        try:
            asked = self._remote.call(EngineBinder, "statuses", {"handles": listed})
        except SpeckError as error:
            why = str(error)
        unknown = JobStatus(JobState.UNKNOWN, time.time(), why)
        return {each.engine_id: asked.get(each.engine_id, unknown) for each in listed}

    def measure(self, handles: Iterable[Handle]) -> Mapping[str, JobMetrics | BinderError]:
        """See :meth:`speck.binder.EngineBinder.measure`; by one call, whatever the engine."""
        arguments = {"handles": list(handles)}
        found: Mapping[str, JobMetrics | BinderError] = self._remote.call(EngineBinder, "measure", arguments)
        # A binder that asks for its jobs one by one has such an error for each of them.
        silent = [each for each in found.values() if isinstance(each, Unreachable | OutcomeUnknown)]
        if silent and len(silent) == len(found):
            raise silent[0]
        return found

    def running(self) -> Sequence[Found]:
        """See :meth:`speck.binder.EngineBinder.running`; without a call if the agent reports it."""
        look = self._look()
        if look is not None and look[0].running is not None:
            return look[0].running
        found: Sequence[Found] = self._remote.call(EngineBinder, "running", {})
        return found

    def reported(self, handles: Iterable[Handle]) -> tuple[Mapping[str, JobStatus], Sequence[Found]] | None:
        """See :meth:`speck.binder.EngineBinder.reported`; by the last look of the agent."""
        look = self._look()
        if look is None or look[0].running is None:
            return None
        statuses = self._looked(look, list(handles))
        return None if statuses is None else (statuses, look[0].running)

    def _look(self) -> tuple[Look, float] | None:
        return self._remote.hub.look(self._remote.site, self.address)

    @staticmethod
    def _looked(look: tuple[Look, float] | None, handles: Sequence[Handle]) -> Mapping[str, JobStatus] | None:
        """The statuses by a look of the agent; ``None`` unless it has all of them."""
        if look is None or not handles or not {each.engine_id for each in handles} <= set(look[0].settled):
            return None
        seen = JobStatus(JobState.RUNNING, time.time() - look[1])
        return {each.engine_id: seen for each in handles}

    def state_of(self, handle: Handle) -> State | None:
        """See :meth:`speck.binder.EngineBinder.state_of`; ``None`` also while the agent is away."""
        try:
            found: State | None = self._remote.call(EngineBinder, "state_of", {"handle": handle})
        except (Unreachable, OutcomeUnknown):
            return None
        return found

    def last_ended(self, job_name: str, owner: str) -> int:
        """See :meth:`speck.binder.EngineBinder.last_ended`; the agent's, whatever the engine."""
        arguments = {"job_name": job_name, "owner": owner}
        return int(self._remote.call(EngineBinder, "last_ended", arguments))


class _RemoteBroker(_RemoteBinder):
    def take_owner(self, owner: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.take_owner`; each call names it."""
        self._remote = replace(self._remote, owner=owner)


def remote_engine(kind: EngineKind, hub: Hub, site: str, address: str, inventory: Inventory) -> EngineBinder:
    """The binder of an engine at a site with an agent.

    Raises :class:`~speck.errors.Rejected` for a kind whose engines fetch files from the coordinator.
    """
    prototype = kind.connect(address, inventory)  # opens no connection; its class has the capabilities
    if not is_carried(prototype):
        text = (
            f"{address}: engines of kind {kind.name!r} fetch files from the coordinator, and cannot be used "
            f"through an agent (remove 'agent: true' at site {site!r})"
        )
        raise Rejected(text, address=address)
    remote = Remote(hub, site, address, inventory)
    return cast(EngineBinder, _class_of(type(prototype), EngineBinder, _RemoteEngine)(remote, prototype))


def remote_broker(kind: BrokerKind, hub: Hub, site: str, address: str, inventory: Inventory) -> BrokerBinder:
    """The binder of the broker at a site with an agent."""
    prototype = kind.connect(address, inventory)
    remote = Remote(hub, site, address, inventory)
    return cast(BrokerBinder, _class_of(type(prototype), BrokerBinder, _RemoteBroker)(remote, prototype))


@cache
def _class_of(binder: type, base: Base, own: type[_RemoteBinder]) -> Callable[[Remote, Any], Any]:
    """The class of remote binders of a class, with its methods of the contract; those of ``own`` stay."""
    members: dict[str, Any] = {
        name: _forwarding(base, name)
        for name, method in inspect.getmembers(binder, inspect.isfunction)
        if not name.startswith("_")
        and name not in LOCAL
        and name not in vars(own)
        and name in dir(base)
        and method is not getattr(base, name)
    }
    members["capabilities"] = binder.capabilities  # type: ignore[attr-defined]
    return type(binder.__name__, (own, base), members)


def _forwarding(base: Base, name: str) -> Callable[..., Any]:
    @wraps(inspect.getattr_static(base, name))
    def call(self: _RemoteBinder, *arguments: Any, **named: Any) -> Any:
        return self._remote.call(base, name, bound(base, name, arguments, named))

    vars(call).pop("__isabstractmethod__", None)  # it has got the mark with the other attributes
    return call
