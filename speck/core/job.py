"""Jobs and compositions, with the cost of a change of each field; frozen values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

from speck.core.placement import Expects, PlacementOptions
from speck.core.start import LATEST
from speck.core.timezone import UTC

Scalar = str | int | float | bool


class ChangeCost(IntEnum):
    """The cost of a change of a field; the highest among the changed fields decides the action."""

    NOTE = 0  # only stored; no engine is touched
    UPDATE = 1  # the job is restarted at its engine
    MOVE = 2  # the job is stopped at its engine and started at another


# Of all jobs without arguments, labels and the like: one object takes less memory, and is soon compared.
_NONE: Mapping[str, Any] = {}


def _none() -> Mapping[str, Any]:
    return _NONE


def _costs(change: ChangeCost, **kwargs: Any) -> Any:
    return field(metadata={"change": change}, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One desired job: addresses resolved, code identified by content.

    ``code_hash`` is the SHA-256 of the job's file, in hexadecimal; ``trigger`` a Spark interval such as
    ``"2 seconds"``, or ``"real-time"``; ``parallelism`` a number of tasks; ``output_mode`` is
    Spark's, ``append``, ``update`` or ``complete``.  ``None`` means the engine's own default, or that of the
    code.
    ``timezone`` is an IANA name, the zone of local times in the job.
    ``on_error`` is ``fail``, ``skip`` or ``park``, with ``park_topic`` at the source broker.
    With ``retain``, the sink's broker retains the last result of each topic.
    ``start`` is the place where the job begins in its source (:mod:`speck.core.start`).
    ``partitions`` are the declared numbers of partitions of its topics, of which no engine knows.

    ``sites`` are the names of the sites that may run the job (``("any",)``: all with an engine of its kind);
    empty, its place is fixed.  ``placed`` names those of :data:`PLACED_FIELDS` that SpecK chooses; they are
    empty until it has; without ``sites`` that is the address of an engine of a pool, at first of any.
    A job with ``pin`` stays where it runs; ``with_job`` names a job to share a site with, ``apart`` those to
    share none with.  ``split`` is the part of a job in a split by keys (:class:`speck.core.split.Part`).
    ``query`` is the query of a SQL job: its ``program`` in canonical form (:mod:`speck.sql.program`), and of
    a part of a query the name of that (``of``), the ``role`` (``input`` or ``rest``) and the ``input``.
    ``cuts`` are those among which SpecK chooses the cut of an input (empty: the file names it).
    ``template`` is the name with ``*`` for the site, of a job that the ``for_each`` of a file made; jobs with
    the same one are shown as one.
    """

    job_name: str
    spe_address: str = _costs(ChangeCost.MOVE)
    source_broker: str = _costs(ChangeCost.UPDATE)
    source_topic: str = _costs(ChangeCost.UPDATE)
    sink_broker: str = _costs(ChangeCost.UPDATE)
    sink_topic: str = _costs(ChangeCost.UPDATE)
    entry_class: str = _costs(ChangeCost.UPDATE)
    job_path: str = _costs(ChangeCost.NOTE)  # the code is compared by its hash
    engine: str = _costs(ChangeCost.MOVE)
    site: str | None = _costs(ChangeCost.NOTE, default=None)  # its addresses are compared, not its name
    arguments: Mapping[str, Scalar] = _costs(ChangeCost.UPDATE, default_factory=_none)
    parallelism: int | None = _costs(ChangeCost.UPDATE, default=None)
    upgrade: str = _costs(ChangeCost.NOTE, default="stateful")
    trigger: str | None = _costs(ChangeCost.UPDATE, default=None)
    output_mode: str | None = _costs(ChangeCost.UPDATE, default=None)
    timezone: str = _costs(ChangeCost.UPDATE, default=UTC)
    restart: str = _costs(ChangeCost.NOTE, default="always")
    on_error: str = _costs(ChangeCost.UPDATE, default="fail")
    park_topic: str | None = _costs(ChangeCost.UPDATE, default=None)
    retain: bool = _costs(ChangeCost.UPDATE, default=False)
    labels: Mapping[str, str] = _costs(ChangeCost.NOTE, default_factory=_none)
    code_hash: str = _costs(ChangeCost.UPDATE, default="")
    sites: tuple[str, ...] = _costs(ChangeCost.NOTE, default=())
    pin: bool = _costs(ChangeCost.NOTE, default=False)
    with_job: str | None = _costs(ChangeCost.NOTE, default=None)
    apart: tuple[str, ...] = _costs(ChangeCost.NOTE, default=())
    expects: Expects | None = _costs(ChangeCost.NOTE, default=None)  # noqa: RUF009 - a field with its cost
    placed: tuple[str, ...] = _costs(ChangeCost.NOTE, default=())
    split: Mapping[str, Scalar] = _costs(ChangeCost.UPDATE, default_factory=_none)
    query: Mapping[str, Scalar] = _costs(ChangeCost.UPDATE, default_factory=_none)
    start: str = _costs(ChangeCost.UPDATE, default=LATEST)
    partitions: Mapping[str, int] = _costs(ChangeCost.NOTE, default_factory=_none)
    template: str | None = _costs(ChangeCost.NOTE, default=None)
    cuts: tuple[str, ...] = _costs(ChangeCost.NOTE, default=())

    @property
    def movable(self) -> bool:
        """True if SpecK chooses the site, among ``sites``."""
        return bool(self.sites)

    @property
    def site_hints(self) -> tuple[str | None, ...]:
        """The properties that say which site the job belongs to, where its engine serves several."""
        return self.site, self.source_broker, self.sink_broker

    @property
    def read_topics(self) -> tuple[tuple[str, str], ...]:
        """Broker and topic of the job's source."""
        return ((self.source_broker, self.source_topic),)

    @property
    def written_topics(self) -> tuple[tuple[str, str], ...]:
        """Broker and topic of all that the job writes."""
        sink = (self.sink_broker, self.sink_topic)
        return (sink,) if self.park_topic is None else (sink, (self.source_broker, self.park_topic))

    @property
    def code_arguments(self) -> dict[str, Scalar]:
        """The arguments of the job's code: its own, and the program of its query."""
        program = {name: value for name, value in self.query.items() if name == "program"}
        return {**self.arguments, **program}

    @property
    def settled(self) -> bool:
        """True if no address is still to be chosen."""
        return all(getattr(self, name) for name in self.placed)

    def to_dict(self) -> dict[str, Any]:
        """The job as plain data, without fields that have their default: the stored form stays small."""
        return {
            shown: plain(value)
            for name, shown, default in _STORED
            if (value := getattr(self, name)) != default
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """The inverse of :meth:`to_dict`.  Raises ``TypeError`` for a field that is not known."""
        values = {_ATTRIBUTES.get(name, name): value for name, value in data.items()}
        for name in _TUPLES & values.keys():
            values[name] = tuple(values[name])
        if "expects" in values:
            values["expects"] = Expects.from_dict(values["expects"])
        return cls(**values)


CODE = "code_hash"  # the field that identifies the code

# The fields that SpecK chooses for a job with ``sites``, as far as the file has none.
PLACED_FIELDS = ("spe_address", "source_broker", "sink_broker")

# The placed fields of a job whose site is fixed, and whose engine SpecK chooses from a pool there.
POOLED = ("spe_address",)

_TUPLES = {"sites", "apart", "placed", "cuts"}
_SHOWN = {"with_job": "with"}  # a keyword of Python, so no name of an attribute
_ATTRIBUTES = {shown: name for name, shown in _SHOWN.items()}


def shown_name(field: str) -> str:
    """The name of a field of a job in documents and stored forms."""
    return _SHOWN.get(field, field)


def plain(value: Any) -> Any:
    """The value of a field of a job as plain data."""
    if isinstance(value, str):
        return value
    if isinstance(value, Expects):
        return value.to_dict()
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


_DEFAULTS: dict[str, Any] = {
    each.name: each.default_factory() if each.default_factory is not dataclasses.MISSING else each.default
    for each in dataclasses.fields(Job)
    if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
}

# Made once: a composition may have a hundred thousand jobs.
_STORED = [(each.name, shown_name(each.name), _DEFAULTS.get(each.name)) for each in dataclasses.fields(Job)]

JOB_FIELDS: Mapping[str, ChangeCost] = {
    each.name: each.metadata["change"] for each in dataclasses.fields(Job) if "change" in each.metadata
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs between the deployed and the desired job."""

    field: str
    before: Any
    after: Any


def changed_fields(before: Job, after: Job) -> tuple[FieldChange, ...]:
    """The fields that differ, in the order of their declaration."""
    if before is after:  # as nearly all jobs in a round of the reconciler
        return ()
    # Most jobs are equal, which is a quick check.  1, 1.0 and True are equal in Python but not to a job.
    if before == after and (not before.arguments or _types(before.arguments) == _types(after.arguments)):
        return ()
    return tuple(
        FieldChange(name, old, new)
        for name in JOB_FIELDS
        if (old := getattr(before, name)) != (new := getattr(after, name))
        or (name == "arguments" and _types(old) != _types(new))
    )


def changed_options(
    before: PlacementOptions | None, after: PlacementOptions | None
) -> tuple[FieldChange, ...]:
    """The options of placement that differ; a composition without any has the defaults."""
    old, new = before or PlacementOptions(), after or PlacementOptions()
    names = (each.name for each in dataclasses.fields(old))
    found = (FieldChange(name, getattr(old, name), getattr(new, name)) for name in names)
    return tuple(each for each in found if each.before != each.after)


def _types(arguments: Mapping[str, Scalar]) -> dict[str, type]:
    return {key: type(value) for key, value in arguments.items()}


@dataclass(frozen=True, slots=True)
class Composition:
    """A named graph of jobs, by job name; ``placement`` as its file gives it (``None``: it does not).

    ``declared`` are the ``sources`` and ``sinks`` of the file, those that it has: descriptions by topic.
    """

    name: str
    jobs: Mapping[str, Job]
    placement: PlacementOptions | None = None
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=_none)


def job_title(job: Job) -> str:
    """A job and its code, as errors of binders about its code begin: ``job 'a' (Clean of jobs.py)``."""
    return f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"


def query_name(job: Job) -> str:
    """The name of the query that a job runs as a whole or in part; empty if it runs none."""
    return str(job.query.get("of", job.job_name)) if job.query else ""


def is_query_part(job: Job) -> bool:
    """True for an input job of a query, and for its rest."""
    return "of" in job.query


def client_id(job_name: str) -> str:
    """The part of a session's name that is its job's; also the name of a session without an owner."""
    return f"speck-{job_name}"


def session_name(job_name: str, owner: str, number: int = 0) -> str:
    """The MQTT client id of a new session: its job, the identity of the store, and a number if it is not the
    job's first.

    No job name contains the colon, so sessions of two jobs or two stores never have one name.
    """
    name = f"{client_id(job_name)}:{owner}"
    return f"{name}:{number}" if number else name


_REPLAY = re.compile(r":r\d+\Z")


def replay_name(job_name: str, owner: str, number: int) -> str:
    """The name of a session that begins at the ``start`` of its job.

    By its end, connectors give what derives from its messages other names than a job gave that read them
    before.
    """
    return f"{client_id(job_name)}:{owner}:r{number}"


def is_replay(session: str) -> bool:
    """True for the name of a session that begins at the ``start`` of its job."""
    return _REPLAY.search(session) is not None


def owner_in(session: str) -> str:
    """The identity of the store that has made a session, by its name; empty if it names none."""
    return [*session.split(":"), ""][1]


def fence_topic(session: str) -> str:
    """The topic of a session's fence: the retained message with the attempt that may read through it."""
    return f"speck/fence/{session}"


def session_fingerprint(broker: str, session: str) -> str:
    """An identifier of a session at a broker: 16 hexadecimal digits, valid in any name or label."""
    return hashlib.sha256(f"{broker} {session}".encode()).hexdigest()[:16]


# Fields of later versions, which are in a form only where they are set: the form of an older job stays.
_LATER_FIELDS = ("on_error", "park_topic", "split", "output_mode", "timezone", "retain", "query", "start")


def form_fingerprint(job: Job) -> str:
    """An identifier of all properties of a job whose change an engine would notice: 16 hexadecimal digits."""
    form = {
        name: value
        for name, change in JOB_FIELDS.items()
        if change > ChangeCost.NOTE
        and ((value := getattr(job, name)) != _DEFAULTS.get(name) or name not in _LATER_FIELDS)
    }
    text = json.dumps([job.job_name, form], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def profile_fingerprint(job: Job) -> str:
    """An identifier of all that determines the load of a job: its form without addresses and start.

    A job that moved has the same, one with other code or arguments has not.  16 hexadecimal digits.
    """
    same = dataclasses.replace(job, spe_address="", source_broker="", sink_broker="", start=LATEST)
    return form_fingerprint(same)


# What a profile depends on (profile_fingerprint), which is read more often than fingerprints can be made.
_load_of = attrgetter(
    *(
        name
        for name, change in JOB_FIELDS.items()
        if change > ChangeCost.NOTE and name not in (*PLACED_FIELDS, "start")
    )
)


def is_load_alike(one: Job, other: Job) -> bool:
    """True if two forms of a job have the same :func:`profile_fingerprint`."""
    return one is other or (
        _load_of(one) == _load_of(other) and _types(one.arguments) == _types(other.arguments)
    )
