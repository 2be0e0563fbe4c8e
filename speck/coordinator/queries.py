"""What the coordinator answers to who looks: wanted and real, as plain data.  Nothing is changed in here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from speck.binder import ENGINE_OF_SCHEME, LogReader, scheme_of
from speck.binder.pool import BinderPool
from speck.controller.reconciler import Reconciler
from speck.core.inventory import Broker, Inventory, Site
from speck.core.runtime import JobMetrics, JobState, JobStatus
from speck.errors import BinderError, NotFound, SpeckError
from speck.observe.healthcheck import examine
from speck.observe.observer import Observer
from speck.observe.rates import Rates
from speck.observe.sampler import NOT_TOLD, Reading, Sampler
from speck.schema.logins import broker_warnings, engine_warnings
from speck.store import AttemptRecord, Head, JobRecord
from speck.store.abandoned import AbandonedAttempt
from speck.store.deployments import Deployments, Snapshot
from speck.store.history import History


@dataclass(frozen=True)
class Queries:
    """``clock`` tells Unix time, s; ``at_work`` the id of the operation at work on a composition."""

    deployments: Deployments
    observer: Observer
    loop: Reconciler
    pool: BinderPool
    inventory: Inventory
    history: History
    clock: Callable[[], float]
    at_work: Callable[[str], str | None]
    telemetry: Sampler

    # --- compositions

    def compositions(self) -> list[dict[str, Any]]:
        """Each composition: name, last revision, number of wanted jobs, whether one is at work on it."""
        found = []
        for head in self.deployments.store.heads():
            with suppress(NotFound):  # it was deleted since
                found.append(self._summary(head))
        return found

    def _summary(self, head: Head) -> dict[str, Any]:
        return {
            "name": head.name,
            "revision": head.revision,
            "jobs": len(self.deployments.desired(head)),
            "deleting": head.deleting,
            "operation": self.at_work(head.name),
        }

    def composition(self, name: str) -> dict[str, Any]:
        """One composition with its jobs, wanted and real, and its revisions."""
        head = self.deployments.known_head(name)
        jobs = self._jobs_of(self.deployments.snapshot(head), self._left())
        return self._summary(head) | {"jobs": jobs, "revisions": self.history.revisions(name)}

    # --- jobs

    def jobs(self, snapshots: Iterable[Snapshot] | None = None) -> list[dict[str, Any]]:
        """Every job, wanted and as last observed, by name; of these snapshots, if they are there already."""
        left = self._left()
        found = self.deployments.snapshots() if snapshots is None else snapshots
        jobs = [job for each in found for job in self._jobs_of(each, left)]
        return sorted(jobs, key=lambda job: str(job["job_name"]))

    def job(self, name: str) -> dict[str, Any]:
        """One job: wanted and real, its attempt, and its metrics when its engine tells them."""
        head = self.deployments.head(self.deployments.known_job(name).composition)
        snapshot = self.deployments.snapshot(head)
        self.observer.observe(each for each in snapshot.deployed() if each[0].job_name == name)
        data = self._job_data(snapshot, name, self.observer.seen(), self._left())
        attempt = snapshot.attempt(name)
        return data if attempt is None else data | {"metrics": self._metrics(snapshot, attempt)}

    def log(self, name: str, lines: int) -> dict[str, Any]:
        """The last lines that the engine of a job has of it, and where they come from.

        Raises the :class:`~speck.errors.BinderError` of an engine that cannot be asked.
        """
        snapshot = self.deployments.snapshot(
            self.deployments.head(self.deployments.known_job(name).composition)
        )
        attempt = snapshot.attempt(name)
        answer = {"job_name": name, "address": snapshot.forms[name].spe_address, "observed_at": self.clock()}
        if attempt is None or attempt.handle is None:
            return answer | {"about": "no engine has the job, so there is no log of it", "lines": []}
        engine = self.pool.engine(snapshot.forms[name])
        if not isinstance(engine, LogReader):
            return answer | {"about": "this kind of engine shows no log", "lines": []}
        return answer | {
            "about": engine.log_about,
            "lines": list(engine.log_tail(attempt.handle, lines)),
            "attempt": attempt.attempt.number,
        }

    def _left(self) -> Mapping[str, Sequence[AbandonedAttempt]]:
        found: dict[str, list[AbandonedAttempt]] = defaultdict(list)
        for copy in self.deployments.store.abandoned_attempts():
            found[copy.attempt.job_name].append(copy)
        return found

    def _jobs_of(
        self, snapshot: Snapshot, left: Mapping[str, Sequence[AbandonedAttempt]]
    ) -> list[dict[str, Any]]:
        seen = self.observer.seen()
        return [self._job_data(snapshot, name, seen, left) for name in sorted(snapshot.records)]

    def _job_data(
        self,
        snapshot: Snapshot,
        name: str,
        seen: dict[str, JobStatus],
        left: Mapping[str, Sequence[AbandonedAttempt]],
    ) -> dict[str, Any]:
        record, attempt = snapshot.records[name], snapshot.attempt(name)
        wanted, form = snapshot.desired.get(name), snapshot.forms[name]
        status = self._status(record, attempt, seen)
        return {
            "job_name": name,
            "composition": record.composition,
            "wanted": "stopped" if wanted is None else "running",
            "state": status.state.value,
            "observed_at": status.observed_at,
            "message": status.message,
            "error": record.error,
            "up_to_date": form == wanted and attempt is not None and attempt.phase == "running",
            **self._drift_data(name),
            "attempt": None if attempt is None else attempt.attempt.number,
            "job": form.to_dict(),
            "sessions": [asdict(each) for each in record.sessions],
            "left_behind": [
                {"address": each.address, "attempt": each.attempt.number} for each in left.get(name, ())
            ],
        }

    def _drift_data(self, name: str) -> dict[str, Any]:
        note = self.loop.note(name)
        return {
            "drift": None if note is None else note.drifted.drift.value,
            "drift_message": "" if note is None else note.drifted.message,
            "drift_since": None if note is None else note.since,
            "waits": "" if note is None else note.waits,
            "next_try": self.loop.next_try(name),
        }

    def _status(
        self, record: JobRecord, attempt: AttemptRecord | None, seen: dict[str, JobStatus]
    ) -> JobStatus:
        now = self.clock()
        if attempt is None and self.loop.next_try(record.name) is not None:
            return JobStatus(JobState.FAILED, now, record.error)
        if attempt is None:
            return JobStatus(JobState.PENDING, now, "not started")
        if attempt.phase == "intended":
            return JobStatus(JobState.STARTING, now, "given to its engine, no answer yet")
        return seen.get(record.name, JobStatus(JobState.UNKNOWN, now, "not observed yet"))

    def _metrics(self, snapshot: Snapshot, attempt: AttemptRecord) -> dict[str, Any] | None:
        if attempt.handle is None:
            return None
        try:
            engine = self.pool.engine(snapshot.forms[attempt.attempt.job_name])
            metrics: JobMetrics = engine.metrics(attempt.handle)
        except BinderError as error:
            return {"error": str(error)}
        return asdict(metrics)

    # --- rates

    def rates(self, snapshots: Iterable[Snapshot] | None = None) -> dict[str, Any]:
        """What each job does now, as its engine last told; asks nobody, and has the engines asked."""
        readings = self.telemetry.readings()
        found = self.deployments.snapshots() if snapshots is None else snapshots
        jobs = [
            self._rates_data(snapshot, name, readings.get(name))
            for snapshot in found
            for name in snapshot.records
        ]
        observed = [each["observed"] for each in jobs if each["observed"] is not None]
        return {
            "observed": max(observed, default=None),
            "jobs": sorted(jobs, key=lambda job: str(job["job_name"])),
        }

    def _rates_data(self, snapshot: Snapshot, name: str, reading: Reading | None) -> dict[str, Any]:
        form, attempt = snapshot.forms[name], snapshot.attempt(name)
        handle = None if attempt is None else attempt.handle
        if reading is None or handle is None or reading.engine_id != handle.engine_id:
            reading = NOT_TOLD  # or told of a copy that was replaced since
        rates, site = reading.rates or Rates(), self.inventory.site_of_engine(form.spe_address)
        return {
            "job_name": name,
            "composition": snapshot.head.name,
            "site": site.name if site is not None else form.site,
            "source_topic": form.source_topic,
            "sink_topic": form.sink_topic,
            **asdict(rates),
            "error": reading.error or None,
        }

    # --- sites

    def sites(self) -> list[dict[str, Any]]:
        """The inventory, and whether each engine and broker can be reached now.

        Brokers that belong to no site come last, as sites without engines.
        """
        sites = self.inventory.places()
        if not sites:
            return []
        with ThreadPoolExecutor(min(16, len(sites))) as threads:
            return list(threads.map(self._site_data, sites))

    def checkups(self) -> list[dict[str, Any]]:
        """What each engine and each broker of the inventory tells of itself now, and what is wrong."""
        return [each.to_dict() for each in examine(self.inventory, self.pool)]

    def _site_data(self, site: Site) -> dict[str, Any]:
        return {
            "name": site.name,
            "engines": [
                self._engine_data(each.spe_address) | {"warnings": engine_warnings(each)}
                for each in site.engines
            ],
            "broker": self._broker_data(site),
            "uplink": asdict(site.uplink),
        }

    def site_at(self, address: str) -> str:
        """The site, or the broker of no site, that is at this address; of none, the address."""
        for site in self.inventory.places():
            if address in (site.broker_address, *(each.spe_address for each in site.engines)):
                return site.name
        return address

    def left_behind(self) -> list[dict[str, Any]]:
        """Every copy and every session that was left behind, by job name."""
        store = self.deployments.store
        sessions = store.abandoned_sessions()
        waiting = {(each.broker, each.name) for each in sessions if not each.fenced}
        found = [
            self._left_data("copy", each.attempt.job_name, each.composition, each.address)
            | {"attempt": each.attempt.number, "session": each.attempt.session}
            | {"fenced": each.session not in waiting}
            for each in store.abandoned_attempts()
        ]
        found += [
            self._left_data("session", each.job, each.composition, each.broker)
            | {"attempt": None, "session": each.name, "fenced": each.fenced}
            for each in sessions
        ]
        return sorted(found, key=lambda each: (each["job_name"], each["kind"], each["address"]))

    def _left_data(self, kind: str, job: str, composition: str, address: str) -> dict[str, Any]:
        site = self.site_at(address)
        return {
            "kind": kind,
            "job_name": job,
            "composition": composition,
            "address": address,
            "site": site,
        }

    def _engine_data(self, address: str) -> dict[str, Any]:
        data: dict[str, Any] = {"address": address, "reached": True, "error": "", "capacity": None}
        try:
            engine = self.pool.engine_at(ENGINE_OF_SCHEME.get(scheme_of(address), ""), address)
            return data | {"capacity": asdict(engine.capacity())}
        except SpeckError as error:
            return data | {"reached": False, "error": str(error)}

    def _broker_data(self, known: Broker) -> dict[str, Any]:
        address, concerns = known.broker_address, broker_warnings(known)
        data: dict[str, Any] = {"address": address, "reached": True, "error": "", "warnings": concerns}
        try:
            broker = self.pool.broker(address)
            broker.check()
            return data | {"warnings": [*concerns, *broker.warnings()]}
        except SpeckError as error:
            return data | {"reached": False, "error": str(error)}
