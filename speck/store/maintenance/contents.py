"""All records of a store at once, decoded as far as they can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speck.core.job import Job
from speck.placement.profile import JobProfile
from speck.store import codec, profiles
from speck.store.abandoned import DeletedSession
from speck.store.agents import AgentRecord, CodeRecord
from speck.store.records import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    JobRecord,
    RetryState,
    Revision,
)
from speck.store.transaction import Record


@dataclass
class Contents:
    """``unreadable`` are the keys whose values could not be decoded, each with why."""

    format: str = ""
    heads: dict[str, Head] = field(default_factory=dict)
    deleted: dict[str, DeletedComposition] = field(default_factory=dict)
    revisions: dict[tuple[str, int], Revision] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    attempts: list[AttemptRecord] = field(default_factory=list)
    tries: dict[str, RetryState] = field(default_factory=dict)
    abandoned_attempts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    abandoned_sessions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    operations: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    job_profiles: dict[tuple[str, str], JobProfile] = field(default_factory=dict)
    cut_corrections: list[tuple[str, str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    unreadable: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Contents:
        """Decode all of them."""
        contents = cls()
        for key, value in records:
            try:
                contents._add(key.decode().split("/"), value)
            except Exception as error:  # whatever the bytes may bring about
                contents.unreadable[key] = f"{type(error).__name__}: {error}"
        return contents

    def _add(self, parts: list[str], value: bytes) -> None:
        match parts:
            case ["meta", "format"]:
                self.format = value.decode()
            case ["meta", "identity" | "position"]:
                value.decode("ascii")
            case ["meta", "first" | "epoch"]:
                int(value)
            case ["composition", name]:
                self.heads[name] = codec.decode_head(name, value)
            case ["outcome", _, number]:
                int(number)
                codec.decode_outcome(value)
            case ["deleted", name]:
                self.deleted[name] = codec.decode_deleted(name, value)
            case ["revision", name, number]:
                self.revisions[name, int(number)] = codec.decode_revision(name, int(number), value)
            case ["job", name]:
                self.jobs[name] = codec.decode_job(name, value)
            case ["attempt", name, number]:
                self.attempts.append(codec.decode_attempt(f"{name}/{number}", value))
            case ["left", identifier]:
                self.abandoned_attempts[identifier] = codec.decode_operation(value)
            case ["left-session", identifier]:
                self.abandoned_sessions[identifier] = codec.decode_operation(value)
            case ["gone-session", _]:
                DeletedSession(**codec.decode_operation(value))
            case ["agent", _]:
                AgentRecord.from_dict(codec.decode_operation(value))
            case ["join", _]:
                CodeRecord.from_dict(codec.decode_operation(value))
            case ["tries", name]:
                self.tries[name] = codec.decode_tries(value)
            case ["operation" | "healing", identifier]:
                self.operations[identifier] = codec.decode_operation(value)
            case ["profile", "job", name, form]:
                self.job_profiles[name, form] = profiles.decode_job_profile(value)
            case ["profile", "cut", name, form]:
                profiles.decode_cut_correction(value)
                self.cut_corrections.append((name, form))
            case ["profile", "link", source, target]:
                profiles.decode_link(source, target, value)
            case ["profile", "site", name]:
                profiles.decode_site_profile(name, value)
            case ["adapt", _]:
                codec.decode_adaptation(value)
            case ["event", number]:
                int(number)
                self.events.append(codec.decode_event(value))
            case ["loop", number]:
                int(number)
                self.events.append(codec.decode_loop_event(value)[1])
            case _:
                raise ValueError("no such kind of record")

    def last_revision(self, composition: str) -> int:
        """The number of the last revision of a composition that can be read; 0 when there is none."""
        return max((number for name, number in self.revisions if name == composition), default=0)

    def desired(self, head: Head) -> Mapping[str, Job]:
        """The jobs that a composition's last revision holds, as far as it can be read."""
        revision = self.revisions.get((head.name, head.revision))
        return revision.jobs if revision else {}

    def form(self, attempt: AttemptRecord) -> tuple[str, Job] | None:
        """The composition and the form of the job that an attempt runs, if there is just one such."""
        name = attempt.attempt.job_name
        record = self.jobs.get(name)
        found = [
            (composition, revision.jobs[name])
            for (composition, number), revision in self.revisions.items()
            if number == attempt.revision
            and name in revision.jobs
            and (record is None or record.composition == composition)
        ]
        return found[0] if len(found) == 1 else None
